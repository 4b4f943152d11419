# farcall_generate(TARGET <name> SCHEMAS <file.fbs>... [INCLUDES <folder>...])
#
# A static library <name> of what flatc and farcall-gen make of the schemas: link it, and
#
#   #include "file.rpc.h"        // the stubs of file.fbs; includes file_generated.h, its messages
#
# SCHEMAS are relative to the current source folder. A schema that they include is found beside the
# including file, then in INCLUDES in turn, and its messages belong to the library too; its services
# do only if it is listed. Edit any of them and what depends on it is generated anew.

include_guard()

if(NOT TARGET flatbuffers::flatc)
  find_package(FlatBuffers 2.0 REQUIRED CONFIG)
endif()

# The schemas that `schema` includes, as absolute paths in <result>; those that cannot be found are
# left for flatc to report. Includes come first in a schema, so reading stops at anything else.
function(_farcall_direct_includes schema folders result)
  set(found "")
  string(ASCII 239 187 191 byte_order_mark)
  file(READ ${schema} text)
  string(REGEX REPLACE "^${byte_order_mark}" "" text "${text}")
  while(TRUE)
    string(STRIP "${text}" text)
    if(text MATCHES "^//")
      string(FIND "${text}" "\n" end)
    elseif(text MATCHES "^/\\*")
      string(FIND "${text}" "*/" end)
      math(EXPR end "${end} + 1")
    elseif(text MATCHES "^(native_)?include[ \t\r\n]*\"([^\"]*)\"[ \t\r\n]*;")
      string(LENGTH "${CMAKE_MATCH_0}" end)
      math(EXPR end "${end} - 1")
      if(NOT CMAKE_MATCH_1)
        set(name "${CMAKE_MATCH_2}")
        cmake_path(GET schema PARENT_PATH beside)
        foreach(folder IN LISTS beside folders)
          cmake_path(ABSOLUTE_PATH name BASE_DIRECTORY "${folder}" NORMALIZE OUTPUT_VARIABLE file)
          if(EXISTS "${file}" AND NOT IS_DIRECTORY "${file}")
            list(APPEND found "${file}")
            break()
          endif()
        endforeach()
      endif()
    else()
      break()
    endif()
    if(end LESS 1)
      break()
    endif()
    math(EXPR end "${end} + 1")
    string(SUBSTRING "${text}" ${end} -1 text)
  endwhile()
  set(${result} "${found}" PARENT_SCOPE)
endfunction()

# `schema` and all that it includes, in turn.
function(_farcall_closure schema folders result)
  set(closure "${schema}")
  set(waiting "${schema}")
  while(waiting)
    list(POP_FRONT waiting next)
    _farcall_direct_includes("${next}" "${folders}" includes)
    foreach(file IN LISTS includes)
      if(NOT file IN_LIST closure)
        list(APPEND closure "${file}")
        list(APPEND waiting "${file}")
      endif()
    endforeach()
  endwhile()
  set(${result} "${closure}" PARENT_SCOPE)
endfunction()

function(farcall_generate)
  cmake_policy(SET CMP0116 NEW)  # a depfile names its files by absolute paths
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "TARGET" "SCHEMAS;INCLUDES")
  if(arg_UNPARSED_ARGUMENTS OR NOT arg_TARGET OR NOT arg_SCHEMAS)
    message(FATAL_ERROR
        "farcall_generate(TARGET <name> SCHEMAS <file.fbs>... [INCLUDES <folder>...]): "
        "got '${ARGV}'")
  endif()

  set(flags "")
  set(folders "")
  foreach(folder IN LISTS arg_INCLUDES)
    cmake_path(ABSOLUTE_PATH folder NORMALIZE)
    list(APPEND folders "${folder}")
    list(APPEND flags -I "${folder}")
  endforeach()

  set(out "${CMAKE_CURRENT_BINARY_DIR}/${arg_TARGET}.generated")
  set(messages "${out}/messages")  # flatc's headers
  set(stubs "${out}/stubs")        # farcall-gen's
  file(MAKE_DIRECTORY "${messages}" "${stubs}")

  set(listed "")
  set(all "")
  foreach(schema IN LISTS arg_SCHEMAS)
    cmake_path(ABSOLUTE_PATH schema NORMALIZE)
    if(NOT EXISTS "${schema}")
      message(FATAL_ERROR "farcall_generate(TARGET ${arg_TARGET}): there is no ${schema}")
    endif()
    list(APPEND listed "${schema}")
    _farcall_closure("${schema}" "${folders}" closure)
    list(APPEND all ${closure})
  endforeach()
  list(REMOVE_DUPLICATES all)

  set(sources "")
  foreach(schema IN LISTS all)
    cmake_path(GET schema STEM LAST_ONLY stem)
    if(DEFINED schema_of_${stem})
      message(FATAL_ERROR "farcall_generate(TARGET ${arg_TARGET}): ${schema} and "
                          "${schema_of_${stem}} would both be ${stem}_generated.h")
    endif()
    set(schema_of_${stem} "${schema}")
    _farcall_closure("${schema}" "${folders}" closure)
    # A changed include statement changes the list of what is generated.
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${schema}")

    add_custom_command(
        OUTPUT "${messages}/${stem}_generated.h"
        COMMAND flatbuffers::flatc --cpp --gen-object-api --cpp-std c++17 ${flags}
                -o "${messages}" "${schema}"
        DEPENDS ${closure}
        COMMENT "Generating ${stem}_generated.h"
        VERBATIM)
    list(APPEND sources "${messages}/${stem}_generated.h")

    if(schema IN_LIST listed)
      add_custom_command(
          OUTPUT "${stubs}/${stem}.rpc.h" "${stubs}/${stem}.rpc.cc"
          COMMAND farcall::farcall-gen ${flags} -o "${stubs}" --depfile "${stubs}/${stem}.d"
                  "${schema}"
          DEPENDS "${schema}" farcall::farcall-gen
          DEPFILE "${stubs}/${stem}.d"
          COMMENT "Generating ${stem}.rpc.h"
          VERBATIM)
      list(APPEND sources "${stubs}/${stem}.rpc.h" "${stubs}/${stem}.rpc.cc")
    endif()
  endforeach()

  add_library(${arg_TARGET} STATIC ${sources})
  target_compile_features(${arg_TARGET} PUBLIC cxx_std_20)
  # flatc's headers are a stranger's code, as those of the FlatBuffers library are.
  target_include_directories(${arg_TARGET} SYSTEM PUBLIC "$<BUILD_INTERFACE:${messages}>")
  target_include_directories(${arg_TARGET} PUBLIC "$<BUILD_INTERFACE:${stubs}>")
  target_link_libraries(${arg_TARGET} PUBLIC farcall::rpc)
endfunction()
