# farcall_generate(TARGET <name> SCHEMAS <file.fbs>... [INCLUDES <folder>...])
#
# A static library <name> of what flatc and farcall-gen make of the schemas: link it, and
#
#   #include "file.rpc.h"        // the stubs of file.fbs; includes file_generated.h, its messages
#
# SCHEMAS are relative to the current source folder. A schema that they include is found beside the
# including file, then in INCLUDES in turn, and its messages belong to the library too; its services
# do only if it is listed. What an edited schema changes is generated anew.

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

# Adds the rules that make <stem>_generated.h and, if the schema is listed, <stem>.rpc.{h,cc}.
function(_farcall_rules schema stem listed flags flatc_flags out result)
  add_custom_command(
      OUTPUT "${out}/messages/${stem}_generated.h"
      COMMAND flatbuffers::flatc --cpp --gen-object-api --cpp-std c++17 ${flatc_flags} ${flags}
              -o "${out}/messages" "${schema}"
      DEPENDS ${closure_${stem}}
      COMMENT "Generating ${stem}_generated.h"
      VERBATIM)
  set(made "${out}/messages/${stem}_generated.h")
  if(listed)
    set(stub "${out}/stubs/${stem}")
    add_custom_command(
        OUTPUT "${stub}.rpc.h" "${stub}.rpc.cc"
        COMMAND farcall::farcall-gen ${flags} -o "${out}/stubs" --depfile "${stub}.d" "${schema}"
        DEPENDS "${schema}" farcall::farcall-gen
        DEPFILE "${stub}.d"
        COMMENT "Generating ${stem}.rpc.h"
        VERBATIM)
    list(APPEND made "${stub}.rpc.h" "${stub}.rpc.cc")
  endif()
  set(${result} "${made}" PARENT_SCOPE)
endfunction()

function(farcall_generate)
  cmake_policy(SET CMP0116 NEW)  # a depfile names its files by absolute paths
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "TARGET" "SCHEMAS;INCLUDES")
  if(arg_UNPARSED_ARGUMENTS OR NOT arg_TARGET OR NOT arg_SCHEMAS)
    message(FATAL_ERROR
        "farcall_generate(TARGET <name> SCHEMAS <file.fbs>... [INCLUDES <folder>...]): "
        "got '${ARGV}'")
  endif()
  set(me "farcall_generate(TARGET ${arg_TARGET})")

  set(flags "")
  set(folders "")
  foreach(folder IN LISTS arg_INCLUDES)
    cmake_path(ABSOLUTE_PATH folder NORMALIZE)
    list(APPEND folders "${folder}")
    list(APPEND flags -I "${folder}")
  endforeach()

  # What there is: the listed schemas and all that they include, each under its stem.
  set(listed "")
  set(all "")
  foreach(schema IN LISTS arg_SCHEMAS)
    cmake_path(ABSOLUTE_PATH schema NORMALIZE)
    if(NOT EXISTS "${schema}")
      message(FATAL_ERROR "${me}: there is no ${schema}")
    endif()
    list(APPEND listed "${schema}")
    _farcall_closure("${schema}" "${folders}" closure)
    list(APPEND all ${closure})
  endforeach()
  list(REMOVE_DUPLICATES listed)
  list(REMOVE_DUPLICATES all)
  set(circular "")
  foreach(schema IN LISTS all)
    cmake_path(GET schema STEM LAST_ONLY stem)
    if(DEFINED schema_of_${stem})
      message(FATAL_ERROR "${me}: ${schema} and ${schema_of_${stem}} would both become "
                          "${stem}_generated.h")
    endif()
    set(schema_of_${stem} "${schema}")
    _farcall_closure("${schema}" "${folders}" closure_${stem})
    foreach(earlier IN LISTS all)
      cmake_path(GET earlier STEM LAST_ONLY other)
      if(schema IN_LIST closure_${other} AND earlier IN_LIST closure_${stem}
         AND NOT schema STREQUAL earlier)
        set(circular "${earlier} and ${schema}")
      endif()
    endforeach()
    # A changed include statement changes the list of what is generated.
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${schema}")
  endforeach()

  # flatc's headers of schemas that include each other compile only as one: then each listed
  # schema's header has all that it includes, which works for schemas with no include in common.
  set(flatc_flags "")
  if(circular)
    set(flatc_flags --gen-all)
    set(all "${listed}")
    set(covered "")
    foreach(schema IN LISTS listed)
      cmake_path(GET schema STEM LAST_ONLY stem)
      foreach(file IN LISTS closure_${stem})
        if(file IN_LIST covered)
          message(FATAL_ERROR "${me}: ${circular} include each other, so that flatc must put what "
                              "a schema includes into its own header; but two of the listed "
                              "schemas include ${file}. Give them targets of their own.")
        endif()
      endforeach()
      list(APPEND covered ${closure_${stem}})
    endforeach()
  endif()

  set(out "${CMAKE_CURRENT_BINARY_DIR}/${arg_TARGET}.generated")
  file(MAKE_DIRECTORY "${out}/messages" "${out}/stubs")
  set(sources "")
  foreach(schema IN LISTS all)
    cmake_path(GET schema STEM LAST_ONLY stem)
    set(is_listed FALSE)
    if(schema IN_LIST listed)
      set(is_listed TRUE)
    endif()
    _farcall_rules("${schema}" "${stem}" ${is_listed} "${flags}" "${flatc_flags}" "${out}" made)
    list(APPEND sources ${made})
  endforeach()

  add_library(${arg_TARGET} STATIC ${sources})
  target_compile_features(${arg_TARGET} PUBLIC cxx_std_20)
  # flatc's headers are a stranger's code, as those of the FlatBuffers library are.
  target_include_directories(${arg_TARGET} SYSTEM PUBLIC "$<BUILD_INTERFACE:${out}/messages>")
  target_include_directories(${arg_TARGET} PUBLIC "$<BUILD_INTERFACE:${out}/stubs>")
  target_link_libraries(${arg_TARGET} PUBLIC farcall::rpc)
endfunction()
