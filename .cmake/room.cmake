# farcall_room(<name> [SOURCES file...] [HEADERS file...] [DEPS target...])
#
# A room of the library: target farcall_<name>, alias farcall::<name>, installed with its HEADERS
# under include/farcall/<room's folder>/. HEADERS are what users may include; a header that only the
# room itself includes belongs in SOURCES. DEPS are public: rooms and system packages.
# A room without a .cc file is an INTERFACE target.
function(farcall_room name)
  cmake_parse_arguments(PARSE_ARGV 1 room "" "" "SOURCES;HEADERS;DEPS")
  if(room_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "farcall_room(${name}): unknown arguments ${room_UNPARSED_ARGUMENTS}")
  endif()
  set(target farcall_${name})

  set(compiled ${room_SOURCES})
  list(FILTER compiled INCLUDE REGEX "\\.cc$")
  if(compiled)
    set(scope PUBLIC)
    add_library(${target} STATIC ${room_SOURCES} ${room_HEADERS})
    target_compile_features(${target} PUBLIC cxx_std_20)
    farcall_warnings(${target})
    farcall_optimized(${target})
    farcall_fuzzed(${target})
  else()
    set(scope INTERFACE)
    add_library(${target} INTERFACE)
    target_compile_features(${target} INTERFACE cxx_std_20)
  endif()
  add_library(farcall::${name} ALIAS ${target})

  target_include_directories(${target} ${scope}
      $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/include>
      $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_link_libraries(${target} ${scope} ${room_DEPS})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name})

  install(TARGETS ${target} EXPORT farcall ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
  file(RELATIVE_PATH folder ${PROJECT_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR})
  foreach(header IN LISTS room_HEADERS)
    cmake_path(GET header PARENT_PATH below)
    install(FILES ${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/farcall/${folder}/${below})
  endforeach()
endfunction()

# farcall_program(<name> SOURCES file... [DEPS target...] [INSTALL])
#
# A program, at <build>/bin/<name>, with our warnings. INSTALL also names it farcall::<name>, in the
# tree as after find_package(farcall).
function(farcall_program name)
  cmake_parse_arguments(PARSE_ARGV 1 program "INSTALL" "" "SOURCES;DEPS")
  if(program_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "farcall_program(${name}): unknown arguments ${program_UNPARSED_ARGUMENTS}")
  endif()
  add_executable(${name} ${program_SOURCES})
  farcall_warnings(${name})
  farcall_optimized(${name})
  target_include_directories(${name} PRIVATE ${PROJECT_BINARY_DIR}/include)
  target_link_libraries(${name} PRIVATE ${program_DEPS})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
  if(program_INSTALL)
    add_executable(farcall::${name} ALIAS ${name})
    install(TARGETS ${name} EXPORT farcall RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  endif()
endfunction()
