# Installs the build into a fresh prefix, then configures, builds and runs tests/house/consumer as a
# user would: outside of the tree, with find_package(farcall) and nothing else.
#
#   cmake -D BUILD=<build folder> -D CXX=<compiler> -D TYPE=<build type> -P install_test.cmake

set(work ${BUILD}/house.install)
set(prefix ${work}/prefix)
file(REMOVE_RECURSE ${work})

function(step)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE out ERROR_VARIABLE out)
  if(NOT status EQUAL 0)
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "${out}\nfailed (${status}): ${command}")
  endif()
  set(out ${out} PARENT_SCOPE)
endfunction()

step(${CMAKE_COMMAND} --install ${BUILD} --prefix ${prefix})
file(GLOB_RECURSE strangers ${prefix}/*.cc ${prefix}/*CMakeLists.txt)
if(strangers)
  message(FATAL_ERROR "the installation has sources in it: ${strangers}")
endif()
step(${CMAKE_COMMAND} -S ${CMAKE_CURRENT_LIST_DIR}/consumer -B ${work}/build -G Ninja
     -D CMAKE_PREFIX_PATH=${prefix} -D CMAKE_CXX_COMPILER=${CXX} -D CMAKE_BUILD_TYPE=${TYPE})
step(${CMAKE_COMMAND} --build ${work}/build)
step(${work}/build/consumer)
if(NOT out MATCHES "hello, ann")
  message(FATAL_ERROR "the consumer printed: ${out}")
endif()
message(STATUS "consumer: ${out}")
