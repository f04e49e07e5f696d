// The members of one object of a rank table, each read once with everything that can be wrong with it reported.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "bootstrap/rank_table/problem.h"
#include "bootstrap/rank_table/rank_table.h"

namespace hocket::rank_table {

// How numbers are written: formats 1.x put them in quotes, 2.0 does not.
enum class Numbers : uint8_t { in_quotes, plain };
enum class Need : uint8_t { required, optional };

class Fields {
 public:
  Fields(const json::Value& object, Numbers numbers, Problems& problems)
      : object_(object), numbers_(numbers), problems_(problems) {}

  const json::Value& object() const { return object_; }
  // "" if it is absent or wrong.
  std::string text(const char* name, Need need, size_t most = 1024);
  // The same, and an IPv4 or IPv6 address.
  std::string address(const char* name, Need need);
  std::optional<int> number(const char* name, int low, int high, Need need);
  // The elements of an array that are objects, at most `most`.
  std::vector<json::Value> objects(const char* name, Need need, size_t most);
  // Texts of an array of them.
  std::vector<std::string> texts(const char* name, Need need, size_t most);
  // All texts and numbers that were not asked for.
  Attributes rest();

 private:
  std::optional<json::Value> find(const char* name, Need need);
  void wrong_type(const json::Value& value, const char* expected, const char* fix);
  std::vector<json::Value> array(const char* name, Need need, size_t most);

  json::Value object_;
  Numbers numbers_;
  Problems& problems_;
  std::set<std::string, std::less<>> asked_;
};

}  // namespace hocket::rank_table
