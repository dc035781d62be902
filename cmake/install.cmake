# cmake --install puts the libraries, the headers and a package file where find_package(sluice)
# looks. The component `python` is what goes into the wheel, and nothing else.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(SLUICE_PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/sluice)
install(TARGETS sluice EXPORT sluice_targets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
if(SLUICE_SHARED)
  install(TARGETS sluice_shared EXPORT sluice_targets
          LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime
          NAMELINK_COMPONENT development)
  # A wheel holds no links, so the file has its short name there.
  install(PROGRAMS $<TARGET_FILE:sluice_shared> DESTINATION sluice RENAME libsluice.so
          COMPONENT python EXCLUDE_FROM_ALL)
endif()
if(SLUICE_CUDA_NVCC)
  # Beside libsluice.so, which looks for it there. Nothing is compiled against it.
  install(PROGRAMS $<TARGET_FILE:sluice_cuda> DESTINATION ${CMAKE_INSTALL_LIBDIR}
          COMPONENT runtime)
  install(PROGRAMS $<TARGET_FILE:sluice_cuda> DESTINATION sluice COMPONENT python EXCLUDE_FROM_ALL)
endif()
if(SLUICE_APPS)
  install(TARGETS sluice_app RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT runtime)
  if(SLUICE_DAEMON)
    install(TARGETS sluiced RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT runtime)
  endif()
  if(SKBUILD)  # What pip puts beside Python.
    install(TARGETS sluice_app RUNTIME DESTINATION ${SKBUILD_SCRIPTS_DIR}
            COMPONENT python EXCLUDE_FROM_ALL)
  endif()
endif()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        COMPONENT development)
install(EXPORT sluice_targets NAMESPACE sluice:: DESTINATION ${SLUICE_PACKAGE_DIR}
        COMPONENT development)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/sluice-config.cmake.in
  ${PROJECT_BINARY_DIR}/sluice-config.cmake INSTALL_DESTINATION ${SLUICE_PACKAGE_DIR})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/sluice-config-version.cmake
  COMPATIBILITY SameMinorVersion)
# For those who do not use CMake. The prefix follows from where the file lies, unless a folder was
# given as a full path: what that is for does not move.
foreach(folder LIBDIR INCLUDEDIR)
  if(IS_ABSOLUTE "${CMAKE_INSTALL_${folder}}")
    set(SLUICE_PC_${folder} "${CMAKE_INSTALL_${folder}}")
  else()
    set(SLUICE_PC_${folder} "\${prefix}/${CMAKE_INSTALL_${folder}}")
  endif()
endforeach()
if(IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}")
  set(SLUICE_PC_PREFIX "${CMAKE_INSTALL_PREFIX}")
else()
  file(RELATIVE_PATH SLUICE_PC_PREFIX /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
  string(REGEX REPLACE "/$" "" SLUICE_PC_PREFIX "\${pcfiledir}/${SLUICE_PC_PREFIX}")
endif()
configure_file(${PROJECT_SOURCE_DIR}/cmake/sluice.pc.in ${PROJECT_BINARY_DIR}/sluice.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/sluice.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig
        COMPONENT development)
install(FILES ${PROJECT_BINARY_DIR}/sluice-config.cmake
              ${PROJECT_BINARY_DIR}/sluice-config-version.cmake
        DESTINATION ${SLUICE_PACKAGE_DIR} COMPONENT development)
