// The entry point of libFuzzer; see README.md.
#include <cstddef>
#include <cstdint>
#include <string>

#include "fuzz/rank_table_target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  hocket::rank_table::try_text(std::string(reinterpret_cast<const char*>(data), size));
  return 0;
}
