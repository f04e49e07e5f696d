# libhocket.so and the install rules: library, public headers, program, CMake package, pkg-config file.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

add_library(hocket SHARED)
add_library(hocket::hocket ALIAS hocket)
target_link_libraries(hocket PRIVATE hocket_core)
target_include_directories(hocket INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                                            $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
set_target_properties(hocket PROPERTIES
  VERSION ${PROJECT_VERSION}
  SOVERSION ${PROJECT_VERSION_MAJOR}
  LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib
  LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/hocket.map)
# nodelete: the server behind a unique id runs in a thread of its own, whose code must not be unloaded.
target_link_options(hocket PRIVATE LINKER:--version-script=${PROJECT_SOURCE_DIR}/cmake/hocket.map LINKER:-z,nodelete)
if(NOT HOCKET_SANITIZE) # A sanitizer's run-time library is the program's: it leaves symbols open here.
  target_link_options(hocket PRIVATE LINKER:--no-undefined)
endif()

install(TARGETS hocket EXPORT hocketTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/hocket DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
if(TARGET hocket_program)
  install(TARGETS hocket_program RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/hocket)
install(EXPORT hocketTargets NAMESPACE hocket:: DESTINATION ${package_dir})
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/hocketConfig.cmake.in
  ${CMAKE_BINARY_DIR}/hocketConfig.cmake INSTALL_DESTINATION ${package_dir})
# While the major version is 0, a minor version may break what was there before.
write_basic_package_version_file(${CMAKE_BINARY_DIR}/hocketConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/hocketConfig.cmake ${CMAKE_BINARY_DIR}/hocketConfigVersion.cmake
  DESTINATION ${package_dir})

# The prefix relative to the .pc file: an installed tree may be moved.
set(pc_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH HOCKET_PC_PREFIX ${CMAKE_INSTALL_PREFIX}/${pc_dir} ${CMAKE_INSTALL_PREFIX})
configure_file(${PROJECT_SOURCE_DIR}/cmake/hocket.pc.in ${CMAKE_BINARY_DIR}/hocket.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/hocket.pc DESTINATION ${pc_dir})
