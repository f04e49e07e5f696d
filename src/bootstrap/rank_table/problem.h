// What is wrong with a rank table, or with the variables that go with it: one line of text each, by kind, place and
// field. docs/errors.md has an entry for every kind.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "bootstrap/rank_table/json.h"

namespace hocket::rank_table {

enum class Kind : uint8_t {
  // the file
  unreadable_file,
  symbolic_link,
  empty_file,
  too_large,
  truncated_file,
  not_json,
  not_utf8,
  repeated_key,
  // one field
  missing_field,
  wrong_type,
  bad_value,
  bad_address,
  loopback_address,
  unknown_version,
  stale_version,
  not_completed,
  // fields that contradict one another
  wrong_count,
  duplicate_server,
  duplicate_device,
  duplicate_device_ip,
  duplicate_rank,
  rank_gap,
  interleaved_ranks,
  unequal_servers,
  group_of_servers,
  missing_device_ip,
  no_host_address,
  // the table against the variables of a process
  two_tables,
  rank_id_not_set,
  rank_not_in_table,
  rank_size_differs,
  spare_devices,
  device_id_differs,
  server_id_differs,
  foreign_address,
  // the tables and processes of a job
  tables_differ,
  same_rank_twice,
  ranks_absent,
  no_connection,
  port_taken,
};
constexpr int kKinds = static_cast<int>(Kind::port_taken) + 1;

// "duplicate-device": the heading in docs/errors.md, and what `hocket ranktable lint --json` gives.
const char* name_of(Kind kind);
// The public code of HCCL for such a fault ("EI0004"), "" if there is none.
const char* hccl_code(Kind kind);
// Whether ranks can come up in spite of it.
bool is_warning(Kind kind);

struct Problem {
  Kind kind = Kind::bad_value;
  std::string file;
  json::Place place;  // 0: none in the file
  std::string field;  // "server_list[0].device[1].device_id"; a variable's name; "" for the whole
  std::string found;
  std::string expected;
  std::string fix;

  // "file:line:column: field: found X, expected Y, fix: Z [duplicate-device, EI0004]"
  std::string text() const;
};

// Collects those of one file.
class Problems {
 public:
  static constexpr size_t kMost = 1000;  // more are counted only

  explicit Problems(std::string file) : file_(std::move(file)) {}
  const std::string& file() const { return file_; }
  const std::vector<Problem>& list() const { return list_; }
  size_t left_out() const { return left_out_; }
  size_t errors() const { return errors_; }
  size_t warnings() const { return list_.size() + left_out_ - errors_; }
  // The first error as one line that says how many more there are. There must be one.
  Error as_error() const;

  struct What {
    std::string found, expected, fix;
  };
  void add(Kind kind, json::Place place, std::string field, What what);
  void at(Kind kind, const json::Value& value, What what);
  // About a member of an object, which may be absent.
  void member(Kind kind, const json::Value& object, const char* name, What what);
  // In the order of the file.
  void sort();

 private:
  std::string file_;
  std::vector<Problem> list_;
  size_t left_out_ = 0;
  size_t errors_ = 0;
};

}  // namespace hocket::rank_table
