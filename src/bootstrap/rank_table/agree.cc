#include "bootstrap/rank_table/agree.h"

#include <algorithm>

#include "base/text.h"
#include "bootstrap/rank_table/problem.h"
#include "bootstrap/wire.h"

namespace hocket::rank_table {
namespace {

constexpr const char* kLines = "rank_table";  // key of rank 0's lines

std::string text_of(const Attributes& attributes) {
  std::string out;
  for (const auto& [name, value] : attributes) out += ", " + name + " " + in_quotes(value);
  return out;
}

std::string text_of(const Network& network) {
  std::string out =
      format(", layer %d %s %s", network.layer, network.type.c_str(), in_quotes(network.instance).c_str());
  if (!network.attribute.empty()) out += " " + in_quotes(network.attribute);
  for (const NetworkAddress& address : network.addresses) {
    out += " " + address.type + " " + address.address;
    for (const std::string& port : address.ports) out += " " + in_quotes(port);
    if (!address.plane.empty()) out += " plane " + in_quotes(address.plane);
  }
  return out;
}

SharedTable::Line line_of(const Server& server, const Device& device) {
  std::string out = format("rank %d: device %d of server %s", device.rank, device.id, in_quotes(server.id).c_str());
  if (device.local >= 0) out += format(", local id %d", device.local);
  if (!device.ip.empty()) out += ", device_ip " + device.ip;
  if (device.host_port) out += format(", host_port %d", *device.host_port);
  out += text_of(device.attributes);
  for (const Network& network : device.networks) out += text_of(network);
  return {std::move(out), device.place};
}

void add_groups(SharedTable& out, const char* what, const std::vector<Group>& groups) {
  for (const Group& group : groups) {
    std::string text = format("%s %s:", what, in_quotes(group.id).c_str());
    for (const std::string& server : group.servers) text += " " + in_quotes(server);
    out.lines.push_back({text + text_of(group.attributes), {}});
  }
}

uint64_t digest_of(const std::vector<SharedTable::Line>& lines) {
  // FNV-1a with 64 bits: this is about mistakes, not about attacks.
  uint64_t hash = 0xcbf29ce484222325u;
  const auto add = [&](unsigned char byte) { hash = (hash ^ byte) * 0x100000001b3u; };
  for (const SharedTable::Line& line : lines) {
    for (const char c : line.text) add(static_cast<unsigned char>(c));
    add('\n');
  }
  return hash != 0 ? hash : 1;
}

// As much as fits a value of the store.
std::string pack(const SharedTable* table) {
  wire::Writer out;
  out.bytes(table == nullptr ? "" : one_line(table->file, 4096));
  if (table == nullptr) return out.take();
  for (const SharedTable::Line& line : table->lines) {
    const std::string text = one_line(line.text);
    if (out.view().size() + text.size() + 16 > Store::kMaxValue) break;
    out.u32(line.place.line).u32(line.place.column).bytes(text);
  }
  return out.take();
}

std::string at(const std::string& file, json::Place place) {
  return place.line == 0 ? file : format("%s:%u:%u", file.c_str(), place.line, place.column);
}

// `theirs` is what rank 0 packed.
Error compare(const std::string& theirs, const SharedTable* mine, int rank) {
  const std::string name = std::string(" [") + name_of(Kind::tables_differ) + "]";
  wire::Reader in(theirs);
  const std::string file = one_line(in.bytes(), 4096);
  const std::string fix = ": give all ranks the same rank table, or none of them one" + name;
  if (mine == nullptr || file.empty()) {
    return error(hktInvalidUsage, "rank %d was started with %s, rank 0 with %s%s", rank,
                 mine == nullptr ? "no rank table" : mine->file.c_str(), file.empty() ? "none" : file.c_str(),
                 fix.c_str());
  }
  for (const SharedTable::Line& line : mine->lines) {
    json::Place place;
    place.line = in.u32();
    place.column = in.u32();
    const std::string text = one_line(in.bytes());
    if (text == one_line(line.text)) continue;
    return error(hktInvalidUsage, "the rank tables differ: rank %d has '%s' (%s), rank 0 has %s%s%s (%s)%s", rank,
                 one_line(line.text, 400).c_str(), at(mine->file, line.place).c_str(), in.ok() ? "'" : "",
                 in.ok() ? one_line(text, 400).c_str() : "no such line", in.ok() ? "'" : "", at(file, place).c_str(),
                 fix.c_str());
  }
  return error(hktInvalidUsage,
               "the rank tables differ: rank 0's (%s) has more than rank %d's (%s), which is the same up to its end%s",
               file.c_str(), rank, mine->file.c_str(), fix.c_str());
}

}  // namespace

std::shared_ptr<const SharedTable> share(const RankTable& table) {
  auto out = std::make_shared<SharedTable>();
  out->file = table.file;
  out->lines.push_back({std::string("version ") + name_of(table.version) + text_of(table.attributes), {}});
  std::vector<SharedTable::Line> ranks(static_cast<size_t>(table.size()));
  for (const Server& server : table.servers) {
    // Of a 2.0 table the servers are made up from its ranks.
    if (table.version != Version::v2_0) {
      out->lines.push_back({"server " + in_quotes(server.id) +
                                (server.host_ip.empty() ? "" : ", host_ip " + server.host_ip) +
                                text_of(server.attributes),
                            server.place});
    }
    for (const Device& device : server.devices) ranks.at(static_cast<size_t>(device.rank)) = line_of(server, device);
  }
  std::move(ranks.begin(), ranks.end(), std::back_inserter(out->lines));
  add_groups(*out, "super pod", table.super_pods);
  add_groups(*out, "cluster", table.clusters);
  out->digest = digest_of(out->lines);
  return out;
}

Error explain_difference(Store& store, const Side& mine, int odd, Deadline deadline) {
  if (mine.rank == 0) {
    Status put = store.put(kLines, pack(mine.table));
    if (!put.ok()) return std::move(put.error());
  }
  // Nobody puts the second key: the wait for it ends with what rank `odd` publishes.
  const std::string key = mine.rank == odd ? kLines : std::string(kLines) + "/error";
  Result<Store::Found> found = store.get({key}, deadline);
  if (!found) return std::move(found.error());
  if (found->values.empty()) {
    return error(hktInvalidUsage, "the rank tables of rank 0 and rank %d differ, and rank %d did not say where [%s]",
                 odd, mine.rank == odd ? 0 : odd, name_of(Kind::tables_differ));
  }
  return compare(found->values[0], mine.table, mine.rank);
}

}  // namespace hocket::rank_table
