#include "bootstrap/rank_table/problem.h"

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

#include "base/text.h"

namespace hocket::rank_table {
namespace {

struct Row {
  Kind kind;
  const char* name;
  const char* code;  // of HCCL
};

constexpr std::array<Row, kKinds> kRows = {{
    {Kind::unreadable_file, "unreadable-file", ""},
    {Kind::symbolic_link, "symbolic-link", ""},
    {Kind::empty_file, "empty-file", ""},
    {Kind::too_large, "too-large", ""},
    {Kind::truncated_file, "truncated-file", ""},
    {Kind::not_json, "not-json", ""},
    {Kind::not_utf8, "not-utf8", ""},
    {Kind::repeated_key, "repeated-key", ""},
    {Kind::missing_field, "missing-field", "EI0017"},
    {Kind::wrong_type, "wrong-type", "EI0014"},
    {Kind::bad_value, "bad-value", "EI0014"},
    {Kind::bad_address, "bad-address", "EI0014"},
    {Kind::loopback_address, "loopback-address", ""},
    {Kind::unknown_version, "unknown-version", "EI0014"},
    {Kind::stale_version, "stale-version", "EI0014"},
    {Kind::not_completed, "not-completed", ""},
    {Kind::wrong_count, "wrong-count", ""},
    {Kind::duplicate_server, "duplicate-server", ""},
    {Kind::duplicate_device, "duplicate-device", "EI0004"},
    {Kind::duplicate_device_ip, "duplicate-device-ip", ""},
    {Kind::duplicate_rank, "duplicate-rank", ""},
    {Kind::rank_gap, "rank-gap", ""},
    {Kind::interleaved_ranks, "interleaved-ranks", ""},
    {Kind::unequal_servers, "unequal-servers", ""},
    {Kind::group_of_servers, "group-of-servers", ""},
    {Kind::missing_device_ip, "missing-device-ip", ""},
    {Kind::no_host_address, "no-host-address", ""},
    {Kind::two_tables, "two-tables", ""},
    {Kind::rank_id_not_set, "rank-id-not-set", ""},
    {Kind::rank_not_in_table, "rank-not-in-table", ""},
    {Kind::rank_size_differs, "rank-size-differs", ""},
    {Kind::spare_devices, "spare-devices", ""},
    {Kind::device_id_differs, "device-id-differs", "EI0004"},
    {Kind::server_id_differs, "server-id-differs", ""},
    {Kind::foreign_address, "foreign-address", ""},
    {Kind::tables_differ, "tables-differ", ""},
    {Kind::same_rank_twice, "same-rank-twice", ""},
    {Kind::ranks_absent, "ranks-absent", "EI0015"},
    {Kind::no_connection, "no-connection", "EI0006"},
    {Kind::port_taken, "port-taken", ""},
}};

constexpr bool in_order() {
  for (size_t i = 0; i < kRows.size(); ++i) {
    if (static_cast<size_t>(kRows[i].kind) != i) return false;
  }
  return true;
}
static_assert(in_order());

const Row& row(Kind kind) { return kRows[static_cast<size_t>(kind)]; }

}  // namespace

const char* name_of(Kind kind) { return row(kind).name; }

const char* hccl_code(Kind kind) { return row(kind).code; }

bool is_warning(Kind kind) {
  return kind == Kind::unequal_servers || kind == Kind::missing_device_ip || kind == Kind::no_host_address;
}

std::string Problem::text() const {
  std::string out = one_line(file, 4096);
  if (place.line != 0) out += format(":%u:%u", place.line, place.column);
  if (!out.empty()) out += ": ";
  if (is_warning(kind)) out += "warning: ";
  if (!field.empty()) out += field + ": ";
  out += "found " + found + ", expected " + expected + ", fix: " + fix + " [" + name_of(kind);
  if (*hccl_code(kind) != '\0') out += std::string(", ") + hccl_code(kind);
  return out + "]";
}

Error Problems::as_error() const {
  const auto first = std::find_if(list_.begin(), list_.end(), [](const Problem& p) { return !is_warning(p.kind); });
  Error out;
  out.code = hktInvalidUsage;
  out.text = "rank table " + first->text();
  if (errors_ > 1) out.text += format("; and %zu more: `hocket ranktable lint` lists them", errors_ - 1);
  return out;
}

void Problems::add(Kind kind, json::Place place, std::string field, What what) {
  if (!is_warning(kind)) ++errors_;
  if (list_.size() >= kMost) {
    ++left_out_;
    return;
  }
  list_.push_back(
      {kind, file_, place, std::move(field), std::move(what.found), std::move(what.expected), std::move(what.fix)});
}

void Problems::at(Kind kind, const json::Value& value, What what) {
  add(kind, value.place(), value.path(), std::move(what));
}

void Problems::member(Kind kind, const json::Value& object, const char* name, What what) {
  const std::optional<json::Value> value = object.find(name);
  if (value) return at(kind, *value, std::move(what));
  const std::string path = object.path();
  add(kind, object.place(), path.empty() ? name : path + "." + name, std::move(what));
}

void Problems::sort() {
  std::stable_sort(list_.begin(), list_.end(), [](const Problem& a, const Problem& b) {
    return std::tie(a.place.line, a.place.column) < std::tie(b.place.line, b.place.column);
  });
}

}  // namespace hocket::rank_table
