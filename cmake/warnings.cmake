# Warnings are errors for our own code. Clang's thread-safety analysis reads the annotations of src/base/thread_annotations.h.
add_library(hocket_warnings INTERFACE)
target_compile_options(hocket_warnings INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion
  -Wnon-virtual-dtor -Woverloaded-virtual -Wcast-align -Wimplicit-fallthrough -Werror)
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  target_compile_options(hocket_warnings INTERFACE -Wthread-safety)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC 12 sees overlaps and uninitialised bytes inside std::string and std::optional that are not there (GCC bug 105651 and kin).
  target_compile_options(hocket_warnings INTERFACE -Wno-restrict -Wno-maybe-uninitialized -Wno-stringop-overread)
endif()
