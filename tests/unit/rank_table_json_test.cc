// JSON with positions.
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "bootstrap/rank_table/json.h"

namespace hocket::json {
namespace {

std::string at(Place place) { return std::to_string(place.line) + ":" + std::to_string(place.column); }

Document parsed(const std::string& text) {
  Fault fault;
  std::optional<Document> out = Document::parse(text, Limits{}, fault);
  if (!out) throw std::runtime_error(at(fault.place) + " " + fault.found);
  return *std::move(out);
}

Fault fault_of(const std::string& text, const Limits& limits = {}) {
  Fault fault;
  EXPECT_FALSE(Document::parse(text, limits, fault)) << text;
  return fault;
}

// Every value as "path type place text".
void list(const Value& value, std::vector<std::string>& out) {
  out.push_back(value.path() + " " + type_name(value.type()) + " " + at(value.place()) + " " +
                std::string(value.text()));
  for (const Value& element : value.elements()) list(element, out);
}

TEST(RankTableJson, EveryValueKnowsWhereItStands) {
  const Document document = parsed(
      "{\n"
      "  \"a\" : \"x\\n\\u00e9\",  \"b\":[1, -2.5e3,true,\tfalse,null , {}],\n"
      "\"\xc3\xa9\xc3\xa9\": {\"c\":[[7]],\"d\": 8\r\n ,\n\"e\":9}}");
  std::vector<std::string> all;
  list(document.root(), all);
  EXPECT_EQ(all, (std::vector<std::string>{
                     " an object 1:1 ", "a a text 2:9 x\n\xc3\xa9", "b an array 2:27 ", "b[0] a number 2:28 1",
                     "b[1] a number 2:31 -2.5e3", "b[2] true or false 2:38 true", "b[3] true or false 2:44 false",
                     "b[4] null 2:50 null", "b[5] an object 2:57 ", "\xc3\xa9\xc3\xa9 an object 3:7 ",
                     "\xc3\xa9\xc3\xa9.c an array 3:12 ", "\xc3\xa9\xc3\xa9.c[0] an array 3:13 ",
                     "\xc3\xa9\xc3\xa9.c[0][0] a number 3:14 7", "\xc3\xa9\xc3\xa9.d a number 3:23 8",
                     "\xc3\xa9\xc3\xa9.e a number 5:5 9"}));
}

TEST(RankTableJson, PlacesInALongLineAreRightBeyondTheIndexOfCharacters) {
  std::string text = "[";
  std::vector<size_t> columns;
  size_t column = 2;
  for (int i = 0; i < 2000; ++i) {
    columns.push_back(column);
    text += "\"\xe2\x82\xac\",";
    column += 4;
  }
  text += "0]";
  const Document document = parsed(text);
  const std::vector<Value> all = document.root().elements();
  ASSERT_EQ(all.size(), 2001u);
  for (size_t i = 0; i < columns.size(); ++i) ASSERT_EQ(all[i].place().column, columns[i]) << i;
}

TEST(RankTableJson, AByteOrderMarkIsNoCharacterOfTheTable) {
  const Document document = parsed("\xef\xbb\xbf{\"a\": 1}");
  ASSERT_EQ(document.root().size(), 1u);
  EXPECT_EQ(document.root().elements()[0].text(), "1");
}

TEST(RankTableJson, KeysThatOccurTwiceAreFoundWithBothPlaces) {
  const Document document = parsed("{\"a\": {\"x\": 1, \"y\": 2, \"x\": 3},\n \"b\": 4,\n \"a\": 5, \"a\": 6}");
  std::vector<std::string> found;
  for (const Document::Repeated& r : document.repeated())
    found.push_back(r.path + " " + at(r.place) + " " + at(r.first));
  EXPECT_EQ(found, (std::vector<std::string>{"a.x 1:29 1:13", "a 3:7 1:7", "a 3:15 1:7"}));
}

struct Wrong {
  const char* text;
  Fault::Kind kind;
  const char* place;
  const char* found;
  const char* expected;
  const char* fix;
};

TEST(RankTableJson, WhatDoesNotParseIsNamedWithPlaceAndFix) {
  const Wrong wrongs[] = {
      {"", Fault::Kind::empty, "1:1", "nothing", "JSON", "write the file again"},
      {" \n\t ", Fault::Kind::empty, "2:3", "nothing", "JSON", "write the file again"},
      {"{\"a\": 1,\n", Fault::Kind::truncated, "2:1", "the end of the file", "the rest of it",
       "write the file again: whoever wrote it did not finish"},
      {"{\"a\": \"x", Fault::Kind::truncated, "1:9", "the end of the file", "the rest of it",
       "write the file again: whoever wrote it did not finish"},
      {"{\"a\": 1,\n }", Fault::Kind::syntax, "2:2", "'}'", "string literal", "take out the comma before it"},
      {"[1, 2\n 3]", Fault::Kind::syntax, "2:2", "'3]'", "',' or ']'", "correct it, or write the file again"},
      {"{\"a\": 1\n \"b\": 2}", Fault::Kind::syntax, "2:2", "'\"b\": 2}'", "',' or '}'", "put a comma before it"},
      {"// no\n{}", Fault::Kind::syntax, "1:1", "'// no' (invalid literal)", "JSON",
       "take the comment out: JSON has none"},
      {"{'a': 1}", Fault::Kind::syntax, "1:2", "''a': 1}' (invalid literal)", "string literal",
       "write texts in double quotes"},
      {"{\"a\": 1} x", Fault::Kind::syntax, "1:10", "'x' (invalid literal)", "end of input",
       "correct it, or write the file again"},
      {"{\"a\": \"\xff\"}", Fault::Kind::encoding, "1:8", "a byte that is not UTF-8", "UTF-8",
       "save the file as UTF-8"},
  };
  for (const Wrong& wrong : wrongs) {
    const Fault fault = fault_of(wrong.text);
    EXPECT_EQ(static_cast<int>(fault.kind), static_cast<int>(wrong.kind)) << wrong.text;
    EXPECT_EQ(at(fault.place), wrong.place) << wrong.text;
    EXPECT_EQ(fault.found, wrong.found) << wrong.text;
    EXPECT_EQ(fault.expected, wrong.expected) << wrong.text;
    EXPECT_EQ(fault.fix, wrong.fix) << wrong.text;
  }
}

TEST(RankTableJson, LimitsHoldExactly) {
  Limits limits;
  limits.bytes = 6;
  limits.values = 3;
  limits.depth = 2;
  Fault fault;
  EXPECT_TRUE(Document::parse("[1, 2]", limits, fault));
  EXPECT_EQ(fault_of("[1, 22]", limits).kind, Fault::Kind::bytes);
  EXPECT_EQ(fault_of("[1,2,]", limits).kind, Fault::Kind::syntax);
  limits.bytes = 100;
  EXPECT_EQ(fault_of("[1, 2, 3]", limits).kind, Fault::Kind::values);
  EXPECT_TRUE(Document::parse("[[]]", limits, fault));
  EXPECT_EQ(fault_of("[[[]]]", limits).kind, Fault::Kind::depth);
}

}  // namespace
}  // namespace hocket::json
