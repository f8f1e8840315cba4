# The library exports the functions that anymask.h declares, and nothing else.
execute_process(COMMAND ${NM} -D --defined-only ${LIBRARY} OUTPUT_VARIABLE table COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "[^ \n]+\n" names "${table}")
list(TRANSFORM names STRIP)
list(SORT names)

file(READ ${HEADER} header)
string(REGEX MATCHALL "ANYMASK_API [^(;]*[ *\n]anymask_[a-z0-9_]+\\(" declarations "${header}")
list(TRANSFORM declarations REPLACE ".*[ *\n](anymask_[a-z0-9_]+)\\($" "\\1")
list(SORT declarations)

list(LENGTH declarations count)
if(count LESS 30)
  message(FATAL_ERROR "only ${count} declarations found in ${HEADER}")
endif()
if(NOT names STREQUAL declarations)
  message(FATAL_ERROR "exported:\n${names}\ndeclared:\n${declarations}")
endif()
