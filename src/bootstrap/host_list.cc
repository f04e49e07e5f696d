// Slurm's forms of lists.
#include <charconv>

#include "base/text.h"
#include "bootstrap/launchers.h"

namespace hocket {
namespace {

Error bad_list(std::string_view list, const char* what) {
  return error(hktInvalidUsage, "the list of hosts %s does not parse: %s; expected is a form like n1,gpu[01-03,7]",
               in_quotes(list).c_str(), what);
}

// One name, which may have several brackets: rack[1-2]n[1-8].
Status expand_name(std::string_view list, std::string_view name, const std::string& head,
                   std::vector<std::string>& out) {
  const size_t open = name.find('[');
  if (open == std::string_view::npos) {
    if (name.find(']') != std::string_view::npos) return bad_list(list, "a ']' without a '['");
    if (head.empty() && name.empty()) return bad_list(list, "an empty name");
    if (out.size() >= static_cast<size_t>(kMaxRanks)) return bad_list(list, "it has too many names");
    out.push_back(head + std::string(name));
    return {};
  }
  const size_t close = name.find(']', open);
  if (close == std::string_view::npos) return bad_list(list, "a '[' without a ']'");
  const std::string start = head + std::string(name.substr(0, open));
  std::string_view ranges = name.substr(open + 1, close - open - 1);
  for (bool more = true; more;) {
    const size_t comma = ranges.find(',');
    const std::string_view range = ranges.substr(0, comma);
    more = comma != std::string_view::npos;
    if (more) ranges.remove_prefix(comma + 1);
    const size_t dash = range.find('-');
    const std::string_view first_text = range.substr(0, dash);
    const std::string_view last_text = dash == std::string_view::npos ? first_text : range.substr(dash + 1);
    const auto digits = [](std::string_view t) {
      return !t.empty() && t.size() <= 9 && t.find_first_not_of("0123456789") == std::string_view::npos;
    };
    if (!digits(first_text) || !digits(last_text)) return bad_list(list, "a range that is no number");
    int first = 0, last = 0;
    std::from_chars(first_text.data(), first_text.data() + first_text.size(), first);
    std::from_chars(last_text.data(), last_text.data() + last_text.size(), last);
    if (last < first || last - first >= kMaxRanks) return bad_list(list, "a range that goes backwards or is too long");
    for (int i = first; i <= last; ++i) {
      std::string number = std::to_string(i);
      // The width of the first number is that of all.
      if (number.size() < first_text.size()) number.insert(0, first_text.size() - number.size(), '0');
      HKT_TRY(expand_name(list, name.substr(close + 1), start + number, out));
    }
  }
  return {};
}

}  // namespace

Result<std::vector<std::string>> expand_host_list(std::string_view list) {
  std::vector<std::string> out;
  // A name of many brackets nests as deeply.
  if (list.size() > (size_t{1} << 20)) return bad_list(list, "it is longer than 1 MiB");
  std::string_view rest = list;
  while (true) {
    size_t end = 0;
    int brackets = 0;
    int inside = 0;
    for (; end < rest.size() && (rest[end] != ',' || inside > 0); ++end) {
      if (rest[end] == '[') ++inside, ++brackets;
      if (rest[end] == ']') --inside;
      if (inside > 1) return bad_list(list, "a '[' inside of another");
    }
    if (brackets > 8) return bad_list(list, "a name with more than 8 brackets");
    HKT_TRY(expand_name(list, rest.substr(0, end), "", out));
    if (end == rest.size()) return out;
    rest.remove_prefix(end + 1);
  }
}

Result<std::vector<int>> expand_task_counts(std::string_view list) {
  const auto bad = [&]() {
    return error(hktInvalidUsage, "the tasks per node %s do not parse: expected is a form like 8(x2),4",
                 in_quotes(list).c_str());
  };
  std::vector<int> out;
  std::string_view rest = list;
  while (true) {
    const size_t comma = rest.find(',');
    std::string_view word = rest.substr(0, comma);
    int64_t times = 1;
    if (const size_t open = word.find("(x"); open != std::string_view::npos) {
      if (word.back() != ')') return bad();
      const auto number = parse_int(word.substr(open + 2, word.size() - open - 3));
      if (!number || *number < 1 || *number > kMaxRanks) return bad();
      times = *number;
      word = word.substr(0, open);
    }
    const auto count = parse_int(word);
    if (!count || *count < 0 || *count > kMaxRanks) return bad();
    if (out.size() + static_cast<size_t>(times) > static_cast<size_t>(kMaxRanks)) return bad();
    out.insert(out.end(), static_cast<size_t>(times), static_cast<int>(*count));
    if (comma == std::string_view::npos) return out;
    rest.remove_prefix(comma + 1);
  }
}

}  // namespace hocket
