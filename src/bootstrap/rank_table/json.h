// JSON that knows where each of its values stands, for messages that name line and column. The text is hostile: its
// size, its depth and the number of its values are bounded before memory is taken for them, UTF-8 is checked, and keys
// that occur twice are found. nlohmann-json reads the tokens; their positions come from an iterator that counts.
//
// A Document is immutable once it is there: any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hocket::json {

struct Limits {
  size_t bytes = size_t{256} << 20;
  size_t values = size_t{4} << 20;  // names of members do not count
  size_t depth = 16;                // of arrays and objects within one another
};

// Both count from 1, columns in characters of UTF-8. 0: no place in a file.
struct Place {
  uint32_t line = 0;
  uint32_t column = 0;
};

enum class Type : uint8_t { null, boolean, number, text, array, object };
const char* type_name(Type type);  // "an object"

class Document;

// One value of a document, which must outlive it.
class Value {
 public:
  Type type() const;
  // The characters of a text, the source of a number, boolean or null; nothing for the others. Lives as the document.
  std::string_view text() const;
  std::string_view key() const;  // of a member of an object
  size_t size() const;           // elements or members
  std::vector<Value> elements() const;
  std::optional<Value> find(std::string_view key) const;  // the first member of this name
  Place place() const;
  std::string path() const;  // "server_list[0].device[1].rank_id"; "" for the outermost
  // As a person would recognise it: a short text in quotes, a number as it stands, "an array".
  std::string shown() const;

 private:
  friend class Document;
  friend class Builder;
  Value(const Document& document, uint32_t index) : document_(&document), index_(index) {}
  const Document* document_;
  uint32_t index_;
};

// Why a text is no document.
struct Fault {
  enum class Kind : uint8_t { empty, truncated, syntax, encoding, bytes, values, depth };
  Kind kind = Kind::syntax;
  Place place;
  std::string found;
  std::string expected;
  std::string fix;
};

class Document {
 public:
  // A member whose key an earlier member of its object has.
  struct Repeated {
    std::string path;
    Place place;
    Place first;
  };

  static constexpr size_t kBlock = 1024;  // bytes, of the index of characters

  // Nothing if the text does not parse; then `fault` says why.
  static std::optional<Document> parse(std::string text, const Limits& limits, Fault& fault);

  Value root() const { return Value(*this, 0); }
  const std::vector<Repeated>& repeated() const { return repeated_; }

 private:
  friend class Value;
  friend class Builder;
  static constexpr uint32_t kNone = UINT32_MAX;
  // Values in the order of the text: the children of a container follow it, linked by `next`.
  struct Node {
    Type type = Type::null;
    uint32_t at = 0;  // offset in the text
    uint32_t text = 0, text_size = 0;
    uint32_t key = 0, key_size = 0;
    uint32_t parent = kNone, ordinal = 0, next = kNone;
    uint32_t first = kNone, count = 0;  // children
  };
  Document() = default;
  Place place(uint32_t offset) const;
  uint32_t characters_before(uint32_t offset) const;
  std::string_view pooled(uint32_t at, uint32_t size) const { return std::string_view(pool_).substr(at, size); }

  std::string text_;
  std::string pool_;  // decoded texts and keys
  std::vector<Node> nodes_;
  std::vector<uint32_t> lines_;  // offsets where lines begin
  std::vector<uint32_t> characters_;
  std::vector<Repeated> repeated_;
};

}  // namespace hocket::json
