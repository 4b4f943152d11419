# What `cmake --install` lays down beside the rooms' own headers and archives, so that
# find_package(farcall) gives a user farcall::farcall, farcall-gen and farcall_generate().

include(CMakePackageConfigHelpers)

set(farcall_package ${CMAKE_INSTALL_LIBDIR}/cmake/farcall)
install(EXPORT farcall NAMESPACE farcall:: FILE farcallTargets.cmake DESTINATION ${farcall_package})
configure_package_config_file(.cmake/farcallConfig.cmake.in farcallConfig.cmake
    INSTALL_DESTINATION ${farcall_package} NO_SET_AND_CHECK_MACRO)
# Before 1.0 a minor version may break its users.
write_basic_package_version_file(farcallConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES
    ${PROJECT_BINARY_DIR}/farcallConfig.cmake
    ${PROJECT_BINARY_DIR}/farcallConfigVersion.cmake
    codegen/farcall_generate.cmake
    DESTINATION ${farcall_package})
