# Installation: headers, libanymask, the command, and what find_package(anymask) and pkg-config need. Relocatable: no file names the prefix.
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/anymask DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp")
install(TARGETS anymask EXPORT anymask-targets)
if(TARGET anymask_cli)
  file(RELATIVE_PATH lib_from_bin /${CMAKE_INSTALL_BINDIR} /${CMAKE_INSTALL_LIBDIR})
  set_target_properties(anymask_cli PROPERTIES INSTALL_RPATH "$ORIGIN/${lib_from_bin}")
  install(TARGETS anymask_cli)
endif()

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/anymask)
install(EXPORT anymask-targets NAMESPACE anymask:: DESTINATION ${package_dir})
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/anymask-config.cmake.in ${PROJECT_BINARY_DIR}/anymask-config.cmake
                              INSTALL_DESTINATION ${package_dir} NO_SET_AND_CHECK_MACRO)
# Before 1.0 every minor version may break its users.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/anymask-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/anymask-config.cmake ${PROJECT_BINARY_DIR}/anymask-config-version.cmake DESTINATION ${package_dir})

file(RELATIVE_PATH prefix_from_pc /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" prefix_from_pc "${prefix_from_pc}")
configure_file(${CMAKE_CURRENT_LIST_DIR}/anymask.pc.in ${PROJECT_BINARY_DIR}/anymask.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/anymask.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
