// The entry point of libFuzzer; see README.md.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "fuzz/bootstrap_target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  hocket::try_bytes(std::string_view(reinterpret_cast<const char*>(data), size));
  return 0;
}
