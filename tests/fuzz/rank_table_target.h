// What the fuzzer and the tests do with a text: read it as a rank table and use all that comes of it.
#pragma once

#include <string>

namespace hocket::rank_table {

// Ends the process if something is wrong that no text may bring about.
void try_text(const std::string& text);

}  // namespace hocket::rank_table
