#include "bootstrap/rank_table/fields.h"

#include "base/text.h"

namespace hocket::rank_table {

std::optional<json::Value> Fields::find(const char* name, Need need) {
  asked_.insert(name);
  std::optional<json::Value> value = object_.find(name);
  if (value || need == Need::optional) return value;
  std::string fix = format("add \"%s\"", name);
  for (const json::Value& member : object_.elements()) {
    if (asked_.count(member.key()) == 0 && edit_distance(one_line(member.key(), 64), name) <= 2) {
      fix = "rename " + in_quotes(member.key(), 64) + " to it";
    }
  }
  problems_.member(Kind::missing_field, object_, name, {"nothing", format("a field of the name %s", name), fix});
  return std::nullopt;
}

void Fields::wrong_type(const json::Value& value, const char* expected, const char* fix) {
  problems_.at(Kind::wrong_type, value, {value.shown(), expected, fix});
}

std::string Fields::text(const char* name, Need need, size_t most) {
  const std::optional<json::Value> value = find(name, need);
  if (!value) return "";
  if (value->type() != json::Type::text) {
    wrong_type(*value, "a text", value->type() == json::Type::number ? "put it in double quotes" : "write a text");
    return "";
  }
  if (value->text().size() > most || (value->text().empty() && need == Need::required)) {
    problems_.at(Kind::bad_value, *value,
                 {value->text().empty() ? "an empty text" : format("%zu bytes", value->text().size()),
                  format("1 to %zu bytes", most), "write the right text"});
    return "";
  }
  return std::string(value->text());
}

std::string Fields::address(const char* name, Need need) {
  std::string out = text(name, need, 256);
  if (out.empty() || is_address(out)) return out;
  const std::optional<json::Value> value = object_.find(name);
  if (value) {
    const bool dashes = out.find_first_not_of("-.") == std::string::npos;
    const bool masked = out.find('*') != std::string::npos;
    problems_.at(Kind::bad_address, *value,
                 {value->shown(), "an IPv4 or IPv6 address",
                  dashes ? "give the device an address (`hccn_tool -i N -ip -g` shows it) and generate the table again"
                  : masked ? "write the address that stands behind the *"
                           : "write the whole address in numbers"});
  }
  return "";
}

std::optional<int> Fields::number(const char* name, int low, int high, Need need) {
  const std::optional<json::Value> value = find(name, need);
  if (!value) return std::nullopt;
  const bool quoted = numbers_ == Numbers::in_quotes;
  if (value->type() != (quoted ? json::Type::text : json::Type::number)) {
    wrong_type(*value, quoted ? "a number in double quotes" : "a number without quotes",
               quoted ? "put it in double quotes" : "take the quotes away");
    return std::nullopt;
  }
  const std::optional<int64_t> parsed = parse_int(value->text());
  if (!parsed || *parsed < low || *parsed > high) {
    problems_.at(Kind::bad_value, *value,
                 {value->shown(), format("a whole number from %d to %d", low, high), "write the right number"});
    return std::nullopt;
  }
  return static_cast<int>(*parsed);
}

std::vector<json::Value> Fields::array(const char* name, Need need, size_t most) {
  const std::optional<json::Value> value = find(name, need);
  if (!value) return {};
  if (value->type() != json::Type::array) {
    wrong_type(*value, "an array", "put it in [ ]");
    return {};
  }
  if (value->size() > most || (value->size() == 0 && need == Need::required)) {
    problems_.at(value->size() == 0 ? Kind::missing_field : Kind::too_large, *value,
                 {format("%zu entries", value->size()), format("1 to %zu", most),
                  value->size() == 0 ? "write its entries" : "leave out what is not needed"});
    return {};
  }
  return value->elements();
}

std::vector<json::Value> Fields::objects(const char* name, Need need, size_t most) {
  std::vector<json::Value> out;
  for (const json::Value& element : array(name, need, most)) {
    if (element.type() == json::Type::object) {
      out.push_back(element);
    } else {
      wrong_type(element, "an object", "put it in { }");
    }
  }
  return out;
}

std::vector<std::string> Fields::texts(const char* name, Need need, size_t most) {
  std::vector<std::string> out;
  for (const json::Value& element : array(name, need, most)) {
    if (element.type() == json::Type::text) {
      out.emplace_back(element.text());
    } else {
      wrong_type(element, "a text", "put it in double quotes");
    }
  }
  return out;
}

Attributes Fields::rest() {
  Attributes out;
  for (const json::Value& member : object_.elements()) {
    const bool scalar = member.type() == json::Type::text || member.type() == json::Type::number;
    if (scalar && asked_.count(member.key()) == 0) out.emplace_back(member.key(), member.text());
  }
  return out;
}

}  // namespace hocket::rank_table
