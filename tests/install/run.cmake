# cmake -DBUILD_DIR=... -DWORK=... -DSOURCE=... -P run.cmake: each step must succeed.
function(run)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(status)
    list(JOIN ARGV " " command)
    message(FATAL_ERROR "${command}\n${output}")
  endif()
  message(STATUS "${output}")
endfunction()

file(REMOVE_RECURSE ${WORK}/first ${WORK}/moved ${WORK}/build)
run(${CMAKE_COMMAND} --install ${BUILD_DIR} --config ${CONFIG} --prefix ${WORK}/first)
file(RENAME ${WORK}/first ${WORK}/moved)  # nothing installed may remember where it was

# No installed text may name the build, the sources or the prefix it was given.
file(GLOB_RECURSE texts ${WORK}/moved/*.cmake ${WORK}/moved/*.pc)
list(LENGTH texts count)
if(count LESS 4)
  message(FATAL_ERROR "expected a CMake package and a .pc file in ${WORK}/moved, found ${texts}")
endif()
foreach(text ${texts})
  file(READ ${text} content)
  foreach(path ${BUILD_DIR} ${WORK}/first)
    string(FIND "${content}" "${path}" at)
    if(NOT at EQUAL -1)
      message(FATAL_ERROR "${text} names ${path}")
    endif()
  endforeach()
endforeach()

run(${CMAKE_COMMAND} -G ${GENERATOR} -S ${SOURCE} -B ${WORK}/build -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH=${WORK}/moved
    -DCMAKE_C_COMPILER=${C_COMPILER} -DCMAKE_CXX_COMPILER=${CXX_COMPILER} "-DCMAKE_C_FLAGS=${FLAGS}" "-DCMAKE_CXX_FLAGS=${FLAGS}")
run(${CMAKE_COMMAND} --build ${WORK}/build)
run(${WORK}/build/consumer_c)
run(${WORK}/build/consumer_cpp)

find_program(PKG_CONFIG pkg-config)
if(PKG_CONFIG)
  file(GLOB_RECURSE pc ${WORK}/moved/anymask.pc)
  cmake_path(GET pc PARENT_PATH pc_folder)
  set(ENV{PKG_CONFIG_PATH} ${pc_folder})
  execute_process(COMMAND ${PKG_CONFIG} --cflags --libs anymask OUTPUT_VARIABLE flags COMMAND_ERROR_IS_FATAL ANY)
  if(NOT flags MATCHES "-lanymask" OR NOT flags MATCHES "/moved/")
    message(FATAL_ERROR "pkg-config says ${flags}")
  endif()
endif()

# The command line, where it was built, finds its library beside it.
if(EXISTS ${WORK}/moved/bin/anymask)
  run(${WORK}/moved/bin/anymask masks)
endif()
