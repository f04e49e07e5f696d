// The board of MPI's process managers that speak PMI-1: Hydra (MPICH, Intel MPI) and Slurm (srun --mpi=pmi2, which
// understands it as well), at the descriptor PMI_FD or the address PMI_PORT.
//
// Lines "cmd=NAME key=value ..." each way. What is put can be read after a barrier of all ranks, and not before; a
// value ends at the first space, a line has less than 900 bytes. Hydra kills the job of a process that ends after init
// without finalize, and nobody can begin again after finalize: so one exchange is all that there is in the life of a
// process, and it is over before this comes back.
#include <dlfcn.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "base/text.h"
#include "base/thread_annotations.h"
#include "bootstrap/board.h"

namespace hocket {
namespace {

constexpr size_t kMaxLine = 4096;
constexpr const char* kKey = "hocket-rank0";

// What this process got from its one session. A fact of the process: its process manager knows no communicators.
struct Session {
  Mutex mutex;
  bool used HKT_GUARDED_BY(mutex) = false;
  Board::Seat seat HKT_GUARDED_BY(mutex);
  std::string notice HKT_GUARDED_BY(mutex);
};
Session& session() {
  static Session instance;
  return instance;
}

// The value of `name` in a line, nothing if it is not there.
std::optional<std::string> value_of(const std::string& line, const std::string& name) {
  const std::string key = name + "=";
  size_t at = line.compare(0, key.size(), key) == 0 ? 0 : line.find(" " + key);
  if (at == std::string::npos) return std::nullopt;
  at += key.size() + (at == 0 ? 0 : 1);
  return line.substr(at, line.find(' ', at) - at);
}

// The server's end of the conversation. The descriptor may be shared with others (a shell that started this process):
// its flags stay as they are.
class Line {
 public:
  Line(int fd, Fd owned, std::string who) : fd_(fd), owned_(std::move(owned)), who_(std::move(who)) {}

  // A request and the reply, which must be `expected`.
  Result<std::string> ask(const std::string& request, const char* expected, Deadline deadline) {
    HKT_TRY(say(request, deadline));
    return hear(expected, deadline);
  }

  Result<std::string> hear(const char* expected, Deadline deadline) {
    while (in_.find('\n') == std::string::npos) {
      if (in_.size() > kMaxLine) return error(hktRemoteError, "%s sends a line without an end", who_.c_str());
      HKT_ASSIGN(const bool ready, wait_ready(fd_, POLLIN, deadline));
      if (!ready) return error(hktTimeout, "%s does not answer", who_.c_str());
      char part[512];
      const ssize_t got = recv(fd_, part, sizeof part, MSG_DONTWAIT);
      if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
      if (got <= 0) return ended();
      in_.append(part, static_cast<size_t>(got));
    }
    const size_t end = in_.find('\n');
    std::string line = in_.substr(0, end);
    in_.erase(0, end + 1);
    const auto rc = value_of(line, "rc");
    if (value_of(line, "cmd") != std::optional<std::string>(expected) || (rc && *rc != "0")) {
      return error(hktRemoteError, "%s answers %s where %s was expected", who_.c_str(), in_quotes(line).c_str(),
                   expected);
    }
    return line;
  }

 private:
  Status say(const std::string& request, Deadline deadline) {
    const std::string text = request + "\n";
    for (size_t sent = 0; sent < text.size();) {
      HKT_ASSIGN(const bool ready, wait_ready(fd_, POLLOUT, deadline));
      if (!ready) return error(hktTimeout, "%s does not take a request", who_.c_str());
      const ssize_t n = send(fd_, text.data() + sent, text.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
      if (n <= 0) return ended();
      sent += static_cast<size_t>(n);
    }
    return {};
  }
  Error ended() const {
    return error(
        hktRemoteError,
        "%s has closed the connection: another program that this rank ran before has used it up, or the job is "
        "being ended",
        who_.c_str());
  }

  int fd_;
  Fd owned_;
  std::string who_;
  std::string in_;
};

class PmiBoard final : public Board {
 public:
  PmiBoard(Line line, Seat seat, std::string who) : line_(std::move(line)), seat_(seat), who_(std::move(who)) {}
  explicit PmiBoard(Seat seat, std::string notice) : seat_(seat), earlier_(std::move(notice)) {}

  Seat seat() const override { return seat_; }
  std::optional<std::string> earlier() const override { return earlier_; }

  Status post(const std::string& notice, Deadline deadline) override {
    Result<std::string> posted = exchange(notice, deadline);
    if (!posted) return std::move(posted.error());
    return {};
  }
  Result<std::string> read(Deadline deadline) override {
    if (notice_.empty()) {
      HKT_ASSIGN(notice_, exchange("", deadline));
    }
    return notice_;
  }

 private:
  // Everything that there is to say, and the end of the session. A notice if this is rank 0.
  Result<std::string> exchange(const std::string& notice, Deadline deadline) {
    if (!line_) return error(hktInternalError, "a session of PMI that is over");
    HKT_ASSIGN(const std::string reply, line_->ask("cmd=get_my_kvsname", "my_kvsname", deadline));
    const auto space = value_of(reply, "kvsname");
    if (!space) return error(hktRemoteError, "%s tells no name of its key space", who_.c_str());
    const std::string where = " kvsname=" + *space + " key=" + kKey;
    if (!notice.empty()) HKT_TRY(line_->ask("cmd=put" + where + " value=" + notice, "put_result", deadline));
    if (const auto all = line_->ask("cmd=barrier_in", "barrier_out", deadline); !all) {
      if (all.error().code != hktTimeout) return Error(all.error());
      return error(
          hktTimeout,
          "rank %d of %d: not all ranks have come to the barrier of %s before the deadline, and it does not say "
          "which: look at their output, or raise HOCKET_INIT_TIMEOUT",
          seat_.rank, seat_.nranks, who_.c_str());
    }
    std::string out = notice;
    if (notice.empty()) {
      HKT_ASSIGN(const std::string got, line_->ask("cmd=get" + where, "get_result", deadline));
      out = value_of(got, "value").value_or("");
    }
    HKT_TRY(line_->ask("cmd=finalize", "finalize_ack", deadline));
    line_.reset();
    Session& s = session();
    const MutexLock lock(s.mutex);
    s.used = true;
    s.seat = seat_;
    s.notice = out;
    return out;
  }

  std::optional<Line> line_;
  const Seat seat_;
  const std::string who_;
  std::string notice_;
  const std::optional<std::string> earlier_;
};

Status check_descriptor(int fd) {
  struct stat what {};
  if (fstat(fd, &what) == 0 && S_ISSOCK(what.st_mode)) return {};
  return error(
      hktInvalidUsage,
      "PMI_FD is %d, which is no open socket of this process: its parent has the environment of an MPI rank, but "
      "has not handed on the descriptor: start the program by mpirun itself, or set HOCKET_INIT",
      fd);
}

Result<int> number_in(const std::string& line, const char* name) {
  const auto text = value_of(line, name);
  const auto number = text ? parse_int(*text) : std::nullopt;
  if (!number || *number < 0 || *number > kMaxRanks) {
    return error(hktRemoteError, "the process manager says %s where %s was expected", in_quotes(line).c_str(), name);
  }
  return static_cast<int>(*number);
}

}  // namespace

void forget_pmi_session() {
  Session& s = session();
  const MutexLock lock(s.mutex);
  s.used = false;
}

Result<std::unique_ptr<Board>> open_pmi_board(const PmiPlace& place, const Identity& me, Deadline deadline) {
  {
    Session& s = session();
    const MutexLock lock(s.mutex);
    if (s.used) return std::unique_ptr<Board>(std::make_unique<PmiBoard>(s.seat, s.notice));
  }
  // Two sessions of one process do not go together.
  if (dlsym(RTLD_DEFAULT, "MPI_Init") != nullptr) {
    return error(hktInvalidUsage,
                 "MPI is in this process and needs the process manager for itself: hand a unique id around by MPI "
                 "(hktGetUniqueId, MPI_Bcast, hktCommInitRank), or set HOCKET_INIT to a tcp:// or file:// URL");
  }
  const std::string who =
      place.fd >= 0 ? format("the process manager at PMI_FD=%d", place.fd)
                    : format("the process manager at PMI_PORT=%s:%u", place.server.host.c_str(), place.server.port);
  Board::Seat seat{me.rank, me.nranks};
  Fd owned;
  int fd = place.fd;
  if (fd >= 0) {
    HKT_TRY(check_descriptor(fd));
  } else {
    HKT_ASSIGN(owned, connect_to_server(place.server, "the process manager (PMI_PORT)", deadline));
    fd = owned.get();
  }
  Line line(fd, std::move(owned), who);
  if (place.fd < 0) {
    // At a port the server first says who this is.
    HKT_TRY(line.ask(format("cmd=initack pmiid=%d", place.id), "initack", deadline));
    HKT_ASSIGN(const std::string size, line.hear("set", deadline));
    HKT_ASSIGN(seat.nranks, number_in(size, "size"));
    HKT_ASSIGN(const std::string rank, line.hear("set", deadline));
    HKT_ASSIGN(seat.rank, number_in(rank, "rank"));
    HKT_TRY(line.hear("set", deadline));  // debug
  }
  HKT_TRY(line.ask("cmd=init pmi_version=1 pmi_subversion=1", "response_to_init", deadline));
  return std::unique_ptr<Board>(std::make_unique<PmiBoard>(std::move(line), seat, who));
}

}  // namespace hocket
