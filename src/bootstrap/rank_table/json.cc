#include "bootstrap/rank_table/json.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/result.h"
#include "base/text.h"

namespace hocket::json {
namespace {

constexpr std::string_view kMark = "\xef\xbb\xbf";  // what some editors write in front of UTF-8
constexpr size_t kMostRepeated = 100;

// An input iterator that says how far all copies of it have come.
class Counting {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;
  Counting(const char* at, const char** seen) : at_(at), seen_(seen) {}
  reference operator*() const { return *at_; }
  Counting& operator++() {
    *seen_ = ++at_;
    return *this;
  }
  friend bool operator==(const Counting& a, const Counting& b) { return a.at_ == b.at_; }

 private:
  const char* at_;
  const char** seen_;
};

bool begins_character(char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }

std::vector<uint32_t> beginnings_of_lines(std::string_view text) {
  std::vector<uint32_t> out = {0};
  for (size_t at = text.find('\n'); at != std::string_view::npos; at = text.find('\n', at + 1)) {
    out.push_back(static_cast<uint32_t>(at + 1));
  }
  return out;
}

// How many characters begin before each kBlock-th byte: a file may be one long line, and every value asks for its
// place.
std::vector<uint32_t> characters_before_blocks(std::string_view text) {
  std::vector<uint32_t> out;
  uint32_t count = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (i % Document::kBlock == 0) out.push_back(count);
    if (begins_character(text[i])) ++count;
  }
  out.push_back(count);
  return out;
}

bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

std::string between(std::string_view text, std::string_view begin, std::string_view end) {
  const size_t from = text.find(begin);
  if (from == std::string_view::npos) return "";
  text.remove_prefix(from + begin.size());
  return std::string(text.substr(0, text.find(end)));
}

}  // namespace

// Receives the tokens. nlohmann-json has read a token to its end, a number to the character behind it, when it reports
// it; between two tokens that are reported stand only white space, commas and colons. So the beginning of a token is
// what follows them after the end of the one before.
class Builder {
 public:
  Builder(Document& document, const Limits& limits, Fault& fault)
      : doc_(document), limits_(limits), fault_(fault), seen_(doc_.text_.data()) {}

  bool run() {
    const std::string& text = doc_.text_;
    if (std::string_view(text).substr(0, kMark.size()) == kMark) last_ = kMark.size();
    if (start() == text.size()) return refuse(Fault::Kind::empty, start(), "nothing", "JSON", "write the file again");
    return nlohmann::json::sax_parse(Counting(text.data(), &seen_), Counting(text.data() + text.size(), &seen_), this);
  }

  // What the parser calls.
  bool null() { return literal(Type::null); }
  bool boolean(bool) { return literal(Type::boolean); }
  bool number_integer(int64_t) { return literal(Type::number); }
  bool number_unsigned(uint64_t) { return literal(Type::number); }
  bool number_float(double, const std::string&) { return literal(Type::number); }
  bool string(std::string& text) {
    if (!add(Type::text)) return false;
    Document::Node& node = doc_.nodes_.back();
    node.text = pool(text);
    node.text_size = static_cast<uint32_t>(text.size());
    return consumed();
  }
  bool binary(std::vector<uint8_t>&) { return false; }  // not in JSON
  bool start_object(size_t) { return open(Type::object); }
  bool start_array(size_t) { return open(Type::array); }
  bool key(std::string& text) {
    key_ = pool(text);
    key_size_ = static_cast<uint32_t>(text.size());
    return consumed();
  }
  bool end_object() {
    find_repeated(open_.back().node);
    return end_array();
  }
  bool end_array() {
    open_.pop_back();
    return consumed();
  }
  bool parse_error(size_t, const std::string&, const nlohmann::json::exception& e) {
    const std::string_view what = e.what();
    const size_t seen = static_cast<size_t>(seen_ - doc_.text_.data());
    const bool in_token = contains(what, "; last read: '");
    if (contains(what, "unexpected end of input") ||
        (in_token && contains(what, "missing closing quote") && at_end())) {
      return refuse(Fault::Kind::truncated, doc_.text_.size(), "the end of the file", "the rest of it",
                    "write the file again: whoever wrote it did not finish");
    }
    if (contains(what, "ill-formed UTF-8")) {
      return refuse(Fault::Kind::encoding, seen > 0 ? seen - 1 : 0, "a byte that is not UTF-8", "UTF-8",
                    "save the file as UTF-8");
    }
    const size_t at = in_token && !contains(what, "invalid literal") ? (seen > 0 ? seen - 1 : 0) : start();
    std::string found = in_quotes(excerpt(at), 20);
    if (in_token) found += " (" + between(what, " - ", "; last read") + ")";
    return refuse(Fault::Kind::syntax, at, std::move(found), expected(what), remedy(at));
  }

 private:
  struct Open {
    uint32_t node;
    uint32_t last;  // child
  };

  bool at_end() const { return seen_ == doc_.text_.data() + doc_.text_.size(); }

  size_t start() const {
    size_t at = last_;
    while (at < doc_.text_.size() && std::strchr(" \t\r\n,:", doc_.text_[at]) != nullptr && doc_.text_[at] != '\0')
      ++at;
    return at;
  }
  bool consumed() {
    last_ = static_cast<size_t>(seen_ - doc_.text_.data());
    return true;
  }
  uint32_t pool(const std::string& text) {
    const size_t at = doc_.pool_.size();
    doc_.pool_ += text;
    return static_cast<uint32_t>(at);
  }

  std::string_view excerpt(size_t at) const {
    const std::string_view rest = std::string_view(doc_.text_).substr(at);
    return rest.substr(0, rest.find_first_of("\r\n"));
  }

  static std::string expected(std::string_view what) {
    const size_t at = what.rfind("; expected ");
    if (at == std::string_view::npos) return "JSON";
    const std::string_view word = what.substr(at + 11);
    if (word == "'}'" || word == "']'") return "',' or " + std::string(word);
    return std::string(word);
  }

  std::string remedy(size_t at) const {
    const std::string_view rest = std::string_view(doc_.text_).substr(at);
    const char first = rest.empty() ? '\0' : rest[0];
    if (first == '/' || first == '#') return "take the comment out: JSON has none";
    if (first == '}' || first == ']') return "take out the comma before it";
    if (first == '"' || first == '{') return "put a comma before it";
    if (first == '\'') return "write texts in double quotes";
    return "correct it, or write the file again";
  }

  void index_places() {
    doc_.lines_ = beginnings_of_lines(doc_.text_);
    doc_.characters_ = characters_before_blocks(doc_.text_);
  }

  bool refuse(Fault::Kind kind, size_t at, std::string found, std::string expected, std::string fix) {
    index_places();
    fault_ = {kind, doc_.place(static_cast<uint32_t>(at)), std::move(found), std::move(expected), std::move(fix)};
    return false;
  }

  bool add(Type type) {
    if (doc_.nodes_.size() >= limits_.values) {
      return refuse(Fault::Kind::values, start(), "more values", format("at most %zu in a file", limits_.values),
                    "split the table, or leave out what is not needed");
    }
    const auto index = static_cast<uint32_t>(doc_.nodes_.size());
    Document::Node node;
    node.type = type;
    node.at = static_cast<uint32_t>(start());
    if (!open_.empty()) {
      Open& parent = open_.back();
      node.parent = parent.node;
      if (doc_.nodes_[parent.node].type == Type::object) {
        node.key = key_;
        node.key_size = key_size_;
      }
      if (parent.last == Document::kNone) {
        doc_.nodes_[parent.node].first = index;
      } else {
        doc_.nodes_[parent.last].next = index;
      }
      parent.last = index;
      node.ordinal = doc_.nodes_[parent.node].count++;
    }
    doc_.nodes_.push_back(node);
    return true;
  }

  bool literal(Type type) {
    const size_t from = start();
    if (!add(type)) return false;
    const std::string_view rest = std::string_view(doc_.text_).substr(from);
    const std::string word(rest.substr(0, rest.find_first_of(" \t\r\n,:]}")));
    doc_.nodes_.back().text = pool(word);
    doc_.nodes_.back().text_size = static_cast<uint32_t>(word.size());
    return consumed();
  }

  bool open(Type type) {
    if (open_.size() >= limits_.depth) {
      return refuse(Fault::Kind::depth, start(), type_name(type), format("at most %zu levels", limits_.depth),
                    "a rank table has no more than 8: write the file again");
    }
    if (!add(type)) return false;
    open_.push_back({static_cast<uint32_t>(doc_.nodes_.size() - 1), Document::kNone});
    return consumed();
  }

  void find_repeated(uint32_t object) {
    std::vector<uint32_t> members;
    members.reserve(doc_.nodes_[object].count);
    for (uint32_t m = doc_.nodes_[object].first; m != Document::kNone; m = doc_.nodes_[m].next) members.push_back(m);
    const auto name = [&](uint32_t m) { return doc_.pooled(doc_.nodes_[m].key, doc_.nodes_[m].key_size); };
    std::stable_sort(members.begin(), members.end(), [&](uint32_t a, uint32_t b) { return name(a) < name(b); });
    size_t first = 0;
    for (size_t i = 1; i < members.size(); ++i) {
      if (name(members[i]) != name(members[first])) {
        first = i;
      } else if (repeated_.size() < kMostRepeated) {
        repeated_.emplace_back(members[first], members[i]);
      }
    }
  }

 public:
  // Once all is read: the lines are known then.
  void finish() {
    index_places();
    std::sort(repeated_.begin(), repeated_.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
    for (const auto& [first, again] : repeated_) {
      const Value value(doc_, again);
      doc_.repeated_.push_back({value.path(), value.place(), Value(doc_, first).place()});
    }
  }

 private:
  Document& doc_;
  const Limits& limits_;
  Fault& fault_;
  const char* seen_;  // how far the parser has read
  size_t last_ = 0;   // how far it had when it reported the last token
  std::vector<Open> open_;
  uint32_t key_ = 0, key_size_ = 0;
  std::vector<std::pair<uint32_t, uint32_t>> repeated_;
};

std::optional<Document> Document::parse(std::string text, const Limits& limits, Fault& fault) {
  // Offsets have 32 bits.
  const size_t most = std::min(limits.bytes, size_t{UINT32_MAX} - 1);
  if (text.size() > most) {
    fault = {Fault::Kind::bytes, Place{}, format("%zu bytes", text.size()), format("at most %zu", most),
             "leave out what is not needed"};
    return std::nullopt;
  }
  Document out;
  out.text_ = std::move(text);
  Builder builder(out, limits, fault);
  if (!builder.run()) return std::nullopt;
  builder.finish();
  return out;
}

uint32_t Document::characters_before(uint32_t offset) const {
  const size_t block = std::min<size_t>(offset / kBlock, characters_.size() - 1);
  uint32_t count = characters_[block];
  for (size_t at = block * kBlock; at < offset && at < text_.size(); ++at) count += begins_character(text_[at]) ? 1 : 0;
  return count;
}

Place Document::place(uint32_t offset) const {
  const auto after = std::upper_bound(lines_.begin(), lines_.end(), offset);
  const auto line = static_cast<uint32_t>(after - lines_.begin());
  return {line, characters_before(offset) - characters_before(lines_[line - 1]) + 1};
}

const char* type_name(Type type) {
  switch (type) {
    case Type::null:
      return "null";
    case Type::boolean:
      return "true or false";
    case Type::number:
      return "a number";
    case Type::text:
      return "a text";
    case Type::array:
      return "an array";
    case Type::object:
      return "an object";
  }
  return "something else";
}

Type Value::type() const { return document_->nodes_[index_].type; }

std::string_view Value::text() const {
  const Document::Node& node = document_->nodes_[index_];
  return document_->pooled(node.text, node.text_size);
}

std::string_view Value::key() const {
  const Document::Node& node = document_->nodes_[index_];
  return document_->pooled(node.key, node.key_size);
}

size_t Value::size() const { return document_->nodes_[index_].count; }

std::vector<Value> Value::elements() const {
  std::vector<Value> out;
  out.reserve(size());
  const auto& nodes = document_->nodes_;
  for (uint32_t i = nodes[index_].first; i != Document::kNone; i = nodes[i].next) out.push_back(Value(*document_, i));
  return out;
}

std::optional<Value> Value::find(std::string_view key) const {
  const auto& nodes = document_->nodes_;
  if (type() != Type::object) return std::nullopt;
  for (uint32_t i = nodes[index_].first; i != Document::kNone; i = nodes[i].next) {
    if (document_->pooled(nodes[i].key, nodes[i].key_size) == key) return Value(*document_, i);
  }
  return std::nullopt;
}

Place Value::place() const { return document_->place(document_->nodes_[index_].at); }

std::string Value::path() const {
  const auto& nodes = document_->nodes_;
  std::string out;
  for (uint32_t i = index_; nodes[i].parent != Document::kNone; i = nodes[i].parent) {
    const Document::Node& parent = nodes[nodes[i].parent];
    if (parent.type == Type::object) {
      const std::string dot = out.empty() || out[0] == '[' ? "" : ".";
      out.insert(0, one_line(document_->pooled(nodes[i].key, nodes[i].key_size), 64) + dot);
    } else {
      out.insert(0, format("[%u]%s", nodes[i].ordinal, out.empty() || out[0] == '[' ? "" : "."));
    }
  }
  return out;
}

std::string Value::shown() const {
  switch (type()) {
    case Type::array:
    case Type::object:
      return type_name(type());
    case Type::text:
      return '"' + one_line(text(), 60) + '"';
    default:
      return one_line(text(), 60);
  }
}

}  // namespace hocket::json
