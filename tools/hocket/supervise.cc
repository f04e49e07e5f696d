#include "supervise.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstring>
#include <deque>
#include <fstream>
#include <functional>
#include <optional>
#include <string_view>

#include "base/deadline.h"
#include "base/socket.h"
#include "base/text.h"

namespace hocket::tool {
namespace {

constexpr int kAfterFailureMs = 1500;  // for the others to say what they know
constexpr int kAfterTermMs = 1500;     // between SIGTERM and SIGKILL
constexpr int kAfterSignalMs = 4000;   // the same when somebody has asked for the end
constexpr int kForWordMs = 1000;       // for a part to tell its end
constexpr size_t kMostSettings = 1 << 20;
constexpr size_t kPipe = 64 * 1024;
constexpr size_t kLastLines = 10;
constexpr size_t kLongLine = 64 * 1024;
constexpr int kPassedOn[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};

// Writing blocks no longer than this without a look at what else happens: signals are blocked, and a reader may pause
// (a pager). So much of a pipe or a socket that poll() says has room is written without waiting.
constexpr int kSliceMs = 100;
constexpr size_t kAtOnce = PIPE_BUF;
constexpr int kKillRounds = 10;  // then a process that does not end is left to the kernel
constexpr int kKillAgainMs = 500;

// May `fd` be written without waiting? False if what is to be written is to be dropped.
using MayWrite = std::function<bool(int fd)>;

// Until nobody reads any more, or `may` says so. Descriptors may be shared with others, who have set O_NONBLOCK.
void write_all(int fd, std::string_view text, const MayWrite& may) {
  while (!text.empty() && may(fd)) {
    const ssize_t n = write(fd, text.data(), std::min(text.size(), kAtOnce));
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (n < 0) return;
    text.remove_prefix(static_cast<size_t>(n));
  }
}

bool has_room(int fd, int patience_ms) {
  pollfd p{fd, POLLOUT, 0};
  return poll(&p, 1, patience_ms) > 0;
}

bool ends_job(int signal) { return signal != SIGUSR1 && signal != SIGUSR2; }

// Lines from a part to its launcher.
std::string word_of(const std::string& mark, const char* what, int status) {
  return format("%s %s %d\n", mark.c_str(), what, status);
}
void tell(const std::string& mark, const char* what, int status) {
  write_all(STDERR_FILENO, word_of(mark, what, status), [](int fd) {
    while (!has_room(fd, -1)) {
    }
    return true;
  });
}
// What a launcher has from the last of them.
struct Told {
  bool begun = false;
  std::optional<int> failed;  // the status of the first rank there that failed: the part itself has not ended yet
  std::optional<int> ended;

  void take(const std::string& words) {
    const size_t space = words.find(' ');
    if (space == std::string::npos) return;
    const auto status = parse_int(words.substr(space + 1));
    if (!status || *status < 0 || *status > 255) return;
    const std::string what = words.substr(0, space);
    if (what == "begun") begun = true;
    if (what == "failed") failed = static_cast<int>(*status);
    if (what == "ended") ended = static_cast<int>(*status);
  }
};

// What one child prints, whole lines at a time.
class Output {
 public:
  Output(Fd pipe, int to, const Child& child)
      : pipe_(std::move(pipe)),
        to_(to),
        prefix_(child.prefix),
        mark_(child.leash ? child.leash.mark + " " : std::string()) {}
  int fd() const { return pipe_.get(); }

  // Takes what is there, but of one that prints without end only as much as a pipe holds: signals and the others have
  // their turn. `last` gets the lines, too, and `told` what is meant for this process.
  void take(std::deque<std::string>& last, Told& told, const MayWrite& may) {
    constexpr int kReads = 8;
    char part[16384];
    for (int reads = 0;;) {
      if (reads++ == kReads) return;
      const ssize_t n = read(pipe_.get(), part, sizeof part);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && errno == EAGAIN) return;
      if (n <= 0) break;
      size_t begin = 0, end = rest_.size();  // of a line; what is there already has no end of one
      rest_.append(part, static_cast<size_t>(n));
      for (end = rest_.find('\n', end); end != std::string::npos; end = rest_.find('\n', begin)) {
        line(std::string_view(rest_).substr(begin, end - begin), last, told, may);
        begin = end + 1;
      }
      rest_.erase(0, begin);
      if (rest_.size() <= kLongLine) continue;
      emit(rest_, last, may);
      rest_.clear();
    }
    if (!rest_.empty()) line(rest_, last, told, may);
    rest_.clear();
    pipe_.reset();
  }

 private:
  // The mark need not be at the beginning: ssh may have begun a line of its own.
  void line(std::string_view text, std::deque<std::string>& last, Told& told, const MayWrite& may) {
    const size_t at = mark_.empty() ? std::string_view::npos : text.find(mark_);
    if (at != std::string_view::npos) told.take(std::string(text.substr(at + mark_.size())));
    if (at != 0) emit(std::string(text.substr(0, at)) + '\n', last, may);
  }
  void emit(const std::string& text, std::deque<std::string>& last, const MayWrite& may) {
    write_all(to_, prefix_ + text, may);
    last.push_back(text);
    if (last.size() > kLastLines) last.pop_front();
  }

  Fd pipe_;
  int to_;
  std::string prefix_;
  std::string mark_;
  std::string rest_;
};

struct Running {
  const Child* child = nullptr;
  pid_t pid = 0;  // also of its process group
  bool alive = false;
  Fd leash;
  Fd file;
  Told told;
  bool told_of = false;  // its failure has been acted upon
  bool lost = false;     // a part that had not told its end when what runs it was over
  std::vector<Output> outputs;
  std::deque<std::string> last;
};

// All processes that have this one as their parent.
std::vector<pid_t> own_children() {
  std::vector<pid_t> out;
  std::ifstream file("/proc/self/task/" + std::to_string(getpid()) + "/children");
  for (pid_t pid = 0; file >> pid;) out.push_back(pid);
  return out;
}

// A process that outlives the supervisor by a moment if that is killed by force, and ends the process groups that are
// left then: a child would end by itself, what the child has started would not.
class Keeper {
 public:
  Status begin() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return descriptor_error("cannot make a pipe");
    Fd from(ends[0]);
    to_ = Fd(ends[1]);
    const pid_t pid = fork();
    if (pid < 0) return sys_error("cannot start a process");
    if (pid == 0) {
      to_.reset();
      keep(from.get());
    }
    return {};
  }
  void add(pid_t group) const { say(group); }
  void forget(pid_t group) const { say(-group); }
  void dismiss() const { say(0); }

 private:
  void say(pid_t word) const { (void)!write(to_.get(), &word, sizeof word); }

  [[noreturn]] static void keep(int from) {
    setpgid(0, 0);
    for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) close(fd);
    std::vector<pid_t> groups;
    for (pid_t word = 0;;) {
      const ssize_t n = read(from, &word, sizeof word);
      if (n < 0 && errno == EINTR) continue;
      if (n != sizeof word) break;
      if (word == 0) _exit(0);
      if (word > 0) groups.push_back(word);
      if (word < 0) groups.erase(std::remove(groups.begin(), groups.end(), -word), groups.end());
    }
    for (const pid_t group : groups) kill(-group, SIGKILL);
    _exit(0);
  }

  Fd to_;
};

class Supervisor {
 public:
  explicit Supervisor(const Leash& leash) : leash_(leash) {}
  ~Supervisor() {
    sigprocmask(SIG_SETMASK, &before_, nullptr);
    signal(SIGPIPE, pipe_before_);
  }
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  Status begin() {
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGCHLD);
    for (const int s : kPassedOn) sigaddset(&signals, s);
    sigprocmask(SIG_BLOCK, &signals, &before_);
    // Who reads what the ranks print may have enough of it, and a host may be gone: neither ends the supervisor.
    pipe_before_ = signal(SIGPIPE, SIG_IGN);
    events_ = Fd(signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!events_) return sys_error("signalfd");
    HKT_TRY(keeper_.begin());
    // Processes whose parent ended come to this one instead of being lost.
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    return {};
  }

  Status start(const Child& child);
  JobEnd run();
  void kill_all() {
    pass_on(SIGKILL);
    keeper_.dismiss();
    const Deadline patience = Deadline::in_ms(1000);
    for (;;) {
      // Again and again: one that ends leaves its children to this process.
      for (const pid_t pid : own_children()) kill(pid, SIGKILL);
      const pid_t pid = waitpid(-1, nullptr, WNOHANG);
      if ((pid < 0 && errno != EINTR) || patience.passed()) return;
      if (pid == 0) usleep(1000);
    }
  }

 private:
  void pass_on(int signal);
  void end_soon(int term_ms, int kill_ms) {
    if (ending_) return;
    ending_ = true;
    const bool parts =
        std::any_of(running_.begin(), running_.end(), [](const Running& r) { return !r.child->leash.mark.empty(); });
    term_at_ = Deadline::in_ms(term_ms);
    kill_at_ = Deadline::in_ms(kill_ms + (parts ? kForWordMs : 0));
  }
  void on_signal(int signal);
  void read_leash();
  void react();
  bool may_write(int fd);
  void print(const std::string& text) { write_all(STDERR_FILENO, text, may_write_); }
  void reap();
  void failed(Running& r, int status, const std::string& how);
  void take(Running& r);
  std::string names_of_alive() const {
    std::string out;
    for (const Running& r : running_)
      if (r.alive)
        out += format("%s %s (pid %d)", out.empty() ? "" : ",", r.child->name.c_str(), static_cast<int>(r.pid));
    return out;
  }
  void let_go();
  void wait_for_something();

  const Leash& leash_;
  Keeper keeper_;
  sigset_t before_{};
  void (*pipe_before_)(int) = SIG_DFL;
  Fd events_;
  std::vector<Running> running_;
  JobEnd end_;
  const MayWrite may_write_ = [this](int fd) { return may_write(fd); };
  bool leash_there_ = true;
  bool ending_ = false;
  Deadline term_at_ = Deadline::never();
  Deadline kill_at_ = Deadline::never();
  int kills_ = 0;  // rounds of SIGKILL so far
};

// In the child, between fork and exec.
[[noreturn]] void become(const Child& child, int out, int err, int in, const sigset_t& signals) {
  setpgid(0, 0);
  const int null = in >= 0 ? in : open("/dev/null", O_RDONLY | O_CLOEXEC);
  dup2(null, STDIN_FILENO);
  dup2(out, STDOUT_FILENO);
  dup2(err, STDERR_FILENO);
  sigprocmask(SIG_SETMASK, &signals, nullptr);
  signal(SIGPIPE, SIG_DFL);  // what is ignored stays so across exec
  for (const std::string& setting : child.environment) {
    const size_t equals = setting.find('=');
    setenv(setting.substr(0, equals).c_str(), setting.substr(equals + 1).c_str(), 1);
  }
  std::vector<char*> words;
  for (const std::string& word : child.command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  execvp(words[0], words.data());
  std::fprintf(stderr, "hocket: cannot run %s: %s\n", words[0], std::strerror(errno));
  _exit(errno == ENOENT ? 127 : 126);
}

// Puts what a part is to have into the pipe of its leash. Nobody may read for as long as ssh connects: it has to fit.
Status hand_over(const Child& child, int leash) {
  std::string words = child.leash.mark + '\0';
  for (const std::string& setting : child.leash.settings) words += setting + '\0';
  words += '\0';
  if (words.size() > kPipe) fcntl(leash, F_SETPIPE_SZ, static_cast<int>(kMostSettings));
  fcntl(leash, F_SETFL, O_NONBLOCK);
  if (words.size() <= kMostSettings && write(leash, words.data(), words.size()) == static_cast<ssize_t>(words.size()))
    return {};
  return error(
      hktInvalidUsage,
      "cannot start %s: its settings have %zu bytes, more than the %d that fit: hand on fewer or shorter ones (-x, "
      "and HOCKET_*, HCCL_* and NCCL_* of this environment)",
      child.name.c_str(), words.size(), fcntl(leash, F_GETPIPE_SZ));
}

Status Supervisor::start(const Child& child) {
  Running r;
  r.child = &child;
  int out[2], err[2], in[2] = {-1, -1};
  if (pipe2(out, O_CLOEXEC) != 0) return descriptor_error("cannot start " + child.name);
  Fd out_read(out[0]), out_write(out[1]);
  if (pipe2(err, O_CLOEXEC) != 0) return descriptor_error("cannot start " + child.name);
  Fd err_read(err[0]), err_write(err[1]);
  if (child.leash && pipe2(in, O_CLOEXEC) != 0) return descriptor_error("cannot start " + child.name);
  Fd in_read(in[0]);
  r.leash = Fd(in[1]);
  if (!child.file.empty()) {
    r.file = Fd(open(child.file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
    if (!r.file) return sys_error("cannot write %s", child.file.c_str());
  }
  for (const int fd : {out_read.get(), err_read.get()}) fcntl(fd, F_SETFL, O_NONBLOCK);
  if (child.leash) HKT_TRY(hand_over(child, r.leash.get()));
  const pid_t parent = getpid();
  r.pid = fork();
  if (r.pid < 0) return sys_error("cannot start %s", child.name.c_str());
  if (r.pid == 0) {
    // One on a leash notices by itself, and has something to do then.
    if (!child.leash) prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    become(child, out_write.get(), err_write.get(), in_read.get(), before_);
  }
  setpgid(r.pid, r.pid);  // here as well: whoever comes first
  if (!child.leash) keeper_.add(r.pid);
  r.alive = true;
  r.outputs.emplace_back(std::move(out_read), r.file ? r.file.get() : STDOUT_FILENO, child);
  r.outputs.emplace_back(std::move(err_read), r.file ? r.file.get() : STDERR_FILENO, child);
  running_.push_back(std::move(r));
  return {};
}

void Supervisor::pass_on(int signal) {
  for (Running& r : running_) {
    if (!r.alive) continue;
    // The part on another host is told by its leash.
    const auto byte = static_cast<unsigned char>(signal);
    if (!r.child->leash || signal == SIGKILL)
      kill(-r.pid, signal);
    else if (write(r.leash.get(), &byte, 1) != 1)
      r.leash.reset();
  }
}

// Ranks get SIGTERM; a part does that when its leash ends.
void Supervisor::let_go() {
  for (Running& r : running_) {
    if (r.child->leash)
      r.leash.reset();
    else if (r.alive)
      kill(-r.pid, SIGTERM);
  }
}

void Supervisor::on_signal(int signal) {
  if (!ends_job(signal)) return pass_on(signal);
  if (end_.status == 0) end_.status = 128 + signal;
  end_.signal = signal;
  pass_on(signal);
  end_soon(kAfterSignalMs - kAfterTermMs, kAfterSignalMs);
}

void Supervisor::read_leash() {
  // Not by O_NONBLOCK: that is a flag of the open file, which may be standard output as well.
  pollfd there{STDIN_FILENO, POLLIN, 0};
  if (poll(&there, 1, 0) <= 0) return;
  unsigned char signals[16];
  const ssize_t n = read(STDIN_FILENO, signals, sizeof signals);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  for (ssize_t i = 0; i < n; ++i) on_signal(signals[i]);
  if (n > 0) return;
  // Another part has failed, or the launcher is gone: who waits has waited already.
  leash_there_ = false;
  if (end_.status == 0) end_.status = 128 + SIGTERM;
  end_.signal = SIGTERM;
  ending_ = true;
  term_at_ = Deadline::in_ms(0);
  kill_at_ = earlier(kill_at_, Deadline::in_ms(kAfterTermMs));
}

void Supervisor::failed(Running& r, int status, const std::string& how) {
  // Before anything is printed, which may have to wait.
  end_soon(kAfterFailureMs, kAfterFailureMs + kAfterTermMs);
  if (end_.failed < 0 && end_.signal == 0) {
    end_.failed = static_cast<int>(&r - running_.data());
    end_.status = status;
    const std::string text = r.child->name + " " + how + "; ending the job" +
                             (r.last.empty() ? "; it has printed nothing" : "; its last lines:");
    // A part has said so already, and has shown the lines of its rank.
    if (!r.told.failed) {
      std::string said = "hocket: " + text + "\n";
      for (const std::string& line : r.last) said += "  | " + line;
      print(said);
    }
    if (leash_) print(word_of(leash_.mark, "failed", status));
  }
}

void Supervisor::take(Running& r) {
  for (Output& o : r.outputs)
    if (o.fd() >= 0) o.take(r.last, r.told, may_write_);
  // The others need not wait for this part to end.
  if (!r.told.failed || r.told_of) return;
  r.told_of = true;
  failed(r, *r.told.failed, "");
}

void Supervisor::reap() {
  int status = 0;
  for (pid_t pid = waitpid(-1, &status, WNOHANG); pid > 0; pid = waitpid(-1, &status, WNOHANG)) {
    const auto at =
        std::find_if(running_.begin(), running_.end(), [&](const Running& r) { return r.alive && r.pid == pid; });
    if (at == running_.end()) continue;  // a process that a child left behind
    at->alive = false;
    take(*at);
    const int code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    const std::string how = WIFSIGNALED(status)
                                ? format("was ended by signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)))
                                : format("ended with status %d", code);
    if (!at->child->leash) {
      if (status != 0) failed(*at, code, how);
    } else if (const std::optional<int> ended = at->told.ended; ended) {
      if (*ended != 0) failed(*at, *ended, format("ended with status %d", *ended));
    } else {
      // Whatever the status: what runs the part there is not the part. It may still speak, but nobody reaches it any
      // more.
      at->lost = true;
      failed(*at, code == 0 ? 1 : code,
             format(at->told.begun ? "was lost while its ranks ran (%s %s)" : "could not be brought to start (%s %s)",
                    at->child->command.front().c_str(), how.c_str()));
    }
  }
}

void Supervisor::wait_for_something() {
  std::vector<pollfd> polls{{events_.get(), POLLIN, 0}};
  if (leash_ && leash_there_) polls.push_back({STDIN_FILENO, POLLIN, 0});
  for (const Running& r : running_)
    for (const Output& o : r.outputs)
      if (o.fd() >= 0) polls.push_back({o.fd(), POLLIN, 0});
  const Deadline next = term_at_.ns() < kill_at_.ns() ? term_at_ : kill_at_;
  poll(polls.data(), polls.size(), next.left_ms(1000));
}

// Signals, the leash and the deadlines: what does not wait until everything is written.
void Supervisor::react() {
  signalfd_siginfo info;
  while (read(events_.get(), &info, sizeof info) == sizeof info) {
    if (info.ssi_signo != SIGCHLD) on_signal(static_cast<int>(info.ssi_signo));
  }
  if (leash_ && leash_there_) read_leash();
  if (term_at_.passed()) {
    let_go();
    term_at_ = Deadline::never();
  }
  if (kill_at_.passed()) {
    pass_on(SIGKILL);
    ++kills_;
    kill_at_ = Deadline::in_ms(kKillAgainMs);
  }
}

bool Supervisor::may_write(int fd) {
  while (!has_room(fd, kills_ == 0 ? kSliceMs : 0)) {
    if (kills_ != 0) return false;
    react();
  }
  return true;
}

JobEnd Supervisor::run() {
  const auto any_alive = [&] {
    return std::any_of(running_.begin(), running_.end(), [](const Running& r) { return r.alive; });
  };
  while (any_alive()) {
    wait_for_something();
    react();
    for (Running& r : running_) take(r);
    reap();
    if (kills_ > kKillRounds) {
      print("hocket: not even SIGKILL ends" + names_of_alive() +
            "; left behind: they wait in the kernel, for a file "
            "system or a device\n");
      break;
    }
  }
  // What the children have left running belongs to the job.
  for (const Running& r : running_) {
    kill(-r.pid, SIGKILL);
    keeper_.forget(r.pid);
  }
  kill_all();
  for (size_t i = 0; i < running_.size(); ++i)
    if (running_[i].lost) end_.lost.push_back(static_cast<int>(i));
  return end_;
}

}  // namespace

Result<Leash> take_leash() {
  Leash out;
  std::string word;
  for (size_t size = 0; size < kMostSettings; ++size) {
    char c = 0;
    const ssize_t n = read(STDIN_FILENO, &c, 1);
    if (n < 0 && errno == EINTR) continue;
    if (n != 1) break;
    if (c != '\0') {
      word += c;
      continue;
    }
    if (word.empty() && out) {
      tell(out.mark, "begun", 0);
      return out;
    }
    const size_t equals = word.find('=');
    if (!out)
      out.mark = word;
    else if (equals == std::string::npos)
      unsetenv(word.c_str());
    else
      setenv(word.substr(0, equals).c_str(), word.substr(equals + 1).c_str(), 1);
    word.clear();
  }
  return error(hktRemoteError, "the launcher went away before it had said what to run");
}

void tell_end(const Leash& leash, int status) { tell(leash.mark, "ended", status); }

Result<JobEnd> supervise(const std::vector<Child>& children, const Leash& leash) {
  std::fflush(nullptr);
  Supervisor supervisor(leash);
  HKT_TRY(supervisor.begin());
  for (const Child& child : children) {
    if (Status started = supervisor.start(child); !started) {
      supervisor.kill_all();
      return std::move(started.error());
    }
  }
  return supervisor.run();
}

}  // namespace hocket::tool
