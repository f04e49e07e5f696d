// Small helpers for reading numbers from text and for writing error messages. Pure functions, any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hocket {

// The whole text as a decimal number with an optional minus; nothing if there is anything else or it overflows.
std::optional<int64_t> parse_int(std::string_view text);

// The text in single quotes, for a message: control and non-ASCII bytes as \xNN, cut to `most` bytes with "..." behind.
std::string in_quotes(std::string_view text, size_t most = 120);

// One line out of text that came from elsewhere: the same without quotes; bytes of UTF-8 stay.
std::string one_line(std::string_view text, size_t most = 2000);

// Numbers as people write them: {2, 5, 6, 7} is "2, 5-7". Ascending input.
std::string number_list(const std::vector<int>& numbers);

// Insertions, deletions and changes of a byte that make one text the other (Levenshtein): to find what was probably
// meant.
size_t edit_distance(std::string_view a, std::string_view b);

}  // namespace hocket
