# cmake --install puts the library, its header and a package file where find_package(sluice) looks.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(TARGETS sluice EXPORT sluice_targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS sluice_app RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT sluice_targets NAMESPACE sluice:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/sluice)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/sluice-config.cmake.in
  ${PROJECT_BINARY_DIR}/sluice-config.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/sluice)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/sluice-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/sluice-config.cmake
              ${PROJECT_BINARY_DIR}/sluice-config-version.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/sluice)
