#include "bootstrap/rank_table/read.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "base/socket.h"
#include "base/text.h"
#include "bootstrap/rank_table/formats.h"

namespace hocket::rank_table {
namespace {

Kind kind_of(json::Fault::Kind kind) {
  switch (kind) {
    case json::Fault::Kind::empty:
      return Kind::empty_file;
    case json::Fault::Kind::truncated:
      return Kind::truncated_file;
    case json::Fault::Kind::syntax:
      return Kind::not_json;
    case json::Fault::Kind::encoding:
      return Kind::not_utf8;
    case json::Fault::Kind::bytes:
    case json::Fault::Kind::values:
    case json::Fault::Kind::depth:
      return Kind::too_large;
  }
  return Kind::not_json;
}

// What the shape of a table says of its version, to be compared with what it says itself.
std::optional<Version> shape(const json::Value& root) {
  if (root.find("rank_list")) return Version::v2_0;
  if (root.find("group_list")) return Version::groups;
  if (root.find("super_pod_list")) return Version::v1_2;
  if (root.find("server_list")) return Version::v1_0;
  return std::nullopt;
}

// Nothing if it cannot be known.
std::optional<Version> version_of(const json::Value& root, Fields& fields, Problems& problems) {
  const std::optional<Version> looks = shape(root);
  const std::optional<json::Value> given = root.find("version");
  if (!given) {
    if (looks == Version::groups) return looks;
    problems.member(Kind::missing_field, root, "version",
                    {"nothing", "\"1.0\", \"1.2\" or \"2.0\"",
                     looks ? format("add \"version\": \"%s\"", name_of(*looks)) : "write the table again"});
    return looks;
  }
  const std::string text = fields.text("version", Need::required, 16);
  if (text.empty()) return looks;
  for (const Version version : {Version::v1_0, Version::v1_2, Version::v2_0}) {
    if (text != name_of(version)) continue;
    const bool fits = !looks || looks == version || (version == Version::v1_2 && looks == Version::v1_0);
    if (!fits) {
      problems.at(Kind::stale_version, *given,
                  {given->shown() + format(" with the fields of version %s", name_of(*looks)),
                   "the fields of its version", "generate the table again, or see whether an old file is mounted"});
      return looks;
    }
    return version;
  }
  problems.at(Kind::unknown_version, *given,
              {given->shown(), "\"1.0\", \"1.2\" or \"2.0\"", "generate the table for one of these"});
  return looks;
}

void read_root(const json::Value& root, Reading& out) {
  Problems& problems = out.problems;
  if (root.type() != json::Type::object) {
    problems.at(Kind::wrong_type, root, {root.shown(), "an object", "write the file again"});
    return;
  }
  Fields status_of(root, Numbers::in_quotes, problems);
  const bool plain = shape(root) == Version::v2_0;
  const std::string status = status_of.text("status", plain ? Need::optional : Need::required, 64);
  if (status == "initializing") {
    out.initializing = true;
    return;
  }
  if (!status.empty() && status != "completed") {
    problems.member(Kind::not_completed, root, "status",
                    {in_quotes(status, 60), "\"completed\" or \"initializing\"", "let the table be made again"});
  }
  Fields fields(root, plain ? Numbers::plain : Numbers::in_quotes, problems);
  (void)fields.text("status", Need::optional, 64);
  const std::optional<Version> version = version_of(root, fields, problems);
  if (!version) {
    if (problems.errors() == 0) {
      problems.add(Kind::missing_field, root.place(), "",
                   {"none of them", "server_list, rank_list or group_list", "write the table again"});
    }
    return;
  }
  out.table.version = *version;
  Draft draft{out.table, problems, {}, {}};
  switch (*version) {
    case Version::v1_0:
    case Version::v1_2:
      read_servers(fields, draft);
      break;
    case Version::v2_0:
      read_ranks(fields, draft);
      break;
    case Version::groups:
      read_groups(fields, draft);
      break;
  }
  out.table.attributes = fields.rest();
  check_table(draft);
}

// Where a link leads, for the message about it.
std::string target_of(const std::string& path) {
  const std::unique_ptr<char, void (*)(void*)> real(realpath(path.c_str(), nullptr), std::free);
  return real == nullptr ? "the file itself" : real.get();
}

// The file's bytes; or a problem.
std::optional<std::string> contents(const std::string& path, Problems& problems) {
  const auto refuse = [&](Kind kind, const std::string& found, const std::string& fix) {
    problems.add(kind, {}, "", {found, "a regular file that this process can read", fix});
    return std::nullopt;
  };
  // Neither follows a link nor waits for the other end of a pipe.
  const Fd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!file && errno == ELOOP)
    return refuse(Kind::symbolic_link, "a symbolic link", "give the path it leads to: " + target_of(path));
  if (!file) {
    return refuse(Kind::unreadable_file, std::strerror(errno),
                  errno == ENOENT ? "see whether the file is there, and mounted on this host" : "see who may read it");
  }
  struct stat status {};
  if (fstat(file.get(), &status) != 0)
    return refuse(Kind::unreadable_file, std::strerror(errno), "see who may read it");
  if (!S_ISREG(status.st_mode))
    return refuse(Kind::unreadable_file, S_ISDIR(status.st_mode) ? "a directory" : "no regular file",
                  "give the path of the table");
  const size_t most = json::Limits{}.bytes;
  if (static_cast<size_t>(status.st_size) > most) {
    return refuse(Kind::too_large, format("%lld bytes", static_cast<long long>(status.st_size)),
                  format("keep it below %zu bytes", most));
  }
  std::string out(static_cast<size_t>(status.st_size) + 1, '\0');
  size_t have = 0;
  while (have < out.size()) {
    const ssize_t n = read(file.get(), out.data() + have, out.size() - have);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return refuse(Kind::unreadable_file, std::strerror(errno), "see who may read it");
    if (n == 0) break;
    have += static_cast<size_t>(n);
    // It grows while it is read.
    if (have == out.size() && out.size() <= most) out.resize(std::min(out.size() * 2, most + 1));
  }
  out.resize(have);
  return out;
}

}  // namespace

Reading parse(std::string text, const std::string& file) {
  Reading out(file);
  json::Fault fault;
  const std::optional<json::Document> document = json::Document::parse(std::move(text), json::Limits{}, fault);
  if (!document) {
    out.problems.add(kind_of(fault.kind), fault.place, "",
                     {std::move(fault.found), std::move(fault.expected), std::move(fault.fix)});
    return out;
  }
  for (const json::Document::Repeated& again : document->repeated()) {
    out.problems.add(Kind::repeated_key, again.place, again.path,
                     {"a second value", format("one: the first is at %u:%u", again.first.line, again.first.column),
                      "take one of them out"});
  }
  read_root(document->root(), out);
  out.problems.sort();
  return out;
}

Reading read_file(const std::string& path) {
  Reading out(path);
  std::optional<std::string> text = contents(path, out.problems);
  return text ? parse(*std::move(text), path) : std::move(out);
}

}  // namespace hocket::rank_table
