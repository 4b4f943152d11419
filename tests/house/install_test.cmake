# Installs the build into a fresh prefix, then configures, builds and runs the project that the
# README shows, as a user would: outside of the tree, with find_package(farcall) and nothing else.
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

file(READ ${CMAKE_CURRENT_LIST_DIR}/../../README.md readme)

# Writes the next code block of `language` in the README to `file`.
function(take_sample language file)
  string(FIND "${readme}" "\n```${language}\n" begin)
  if(begin EQUAL -1)
    message(FATAL_ERROR "README.md has no block for ${file}")
  endif()
  string(LENGTH "\n```${language}\n" fence)
  math(EXPR begin "${begin} + ${fence}")
  string(SUBSTRING "${readme}" ${begin} -1 rest)
  string(FIND "${rest}" "\n```\n" end)
  string(SUBSTRING "${rest}" 0 ${end} sample)
  math(EXPR end "${end} + 5")
  string(SUBSTRING "${rest}" ${end} -1 rest)
  file(APPEND ${work}/hello/${file} "${sample}\n")
  set(readme "${rest}" PARENT_SCOPE)
endfunction()

take_sample("sh" install.sh)  # what step() does below
take_sample("" greet.fbs)
take_sample("cmake" CMakeLists.txt)
take_sample("cpp" hello.cc)
take_sample("cpp" greet.cc)
file(APPEND ${work}/hello/CMakeLists.txt "target_sources(hello PRIVATE greet.cc)\n")

step(${CMAKE_COMMAND} --install ${BUILD} --prefix ${prefix})
file(GLOB_RECURSE strangers ${prefix}/*.cc ${prefix}/*CMakeLists.txt)
if(strangers)
  message(FATAL_ERROR "the installation has sources in it: ${strangers}")
endif()
step(${CMAKE_COMMAND} -S ${work}/hello -B ${work}/build -G Ninja
     -D CMAKE_PREFIX_PATH=${prefix} -D CMAKE_CXX_COMPILER=${CXX} -D CMAKE_BUILD_TYPE=${TYPE})
step(${CMAKE_COMMAND} --build ${work}/build)
step(${work}/build/hello)
if(NOT out STREQUAL "hello, world\n")
  message(FATAL_ERROR "the README's program printed: ${out}")
endif()
message(STATUS "the README's program: ${out}")
