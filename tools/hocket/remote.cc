#include "remote.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <ctime>

#include "base/deadline.h"
#include "base/socket.h"
#include "base/text.h"

namespace hocket::tool {
namespace {

constexpr size_t kAtOnce = 32;
constexpr size_t kMostPrinted = 1 << 20;

double clock_now() {
  timespec t{};
  clock_gettime(CLOCK_REALTIME, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) / 1e9;
}

// A command that is running, and what it has printed so far.
class Asked {
 public:
  Status begin(const std::vector<std::string>& command, int patience_ms) {
    name_ = command.front();
    patience_ms_ = patience_ms;
    begun_ = clock_now();
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return descriptor_error("cannot make a pipe");
    from_ = Fd(ends[0]);
    const Fd to(ends[1]);
    deadline_ = Deadline::in_ms(patience_ms);
    std::vector<char*> words;
    for (const std::string& w : command) words.push_back(const_cast<char*>(w.c_str()));
    words.push_back(nullptr);
    pid_ = fork();
    if (pid_ < 0) return sys_error("cannot start %s", name_.c_str());
    if (pid_ == 0) {
      setpgid(0, 0);
      dup2(open("/dev/null", O_RDONLY | O_CLOEXEC), STDIN_FILENO);
      dup2(to.get(), STDOUT_FILENO);
      execvp(words[0], words.data());
      _exit(127);
    }
    setpgid(pid_, pid_);
    return {};
  }
  int fd() const { return from_.get(); }
  const Deadline& deadline() const { return deadline_; }

  // Takes what there is to read; true when the command has ended, one way or the other.
  bool goes_on(bool readable) {
    if (readable && from_) {
      char part[4096];
      const ssize_t n = read(from_.get(), part, sizeof part);
      if (n > 0) text_.append(part, static_cast<size_t>(n));
      if (n == 0 || (n < 0 && errno != EINTR)) from_.reset();
    }
    const bool talks_on = text_.size() > kMostPrinted;
    // It may have closed what it prints to, and run on.
    const bool ended = !from_ && waitpid(pid_, &status_, WNOHANG) != 0;
    if (!ended && !talks_on && !deadline_.passed()) return true;
    if (!ended) {
      kill(-pid_, SIGKILL);
      waitpid(pid_, &status_, 0);
    }
    late_ = !ended && !talks_on;
    too_long_ = talks_on;
    return false;
  }

  Answer answer() {
    Answer out{std::move(text_), begun_, clock_now()};
    const int code = WIFEXITED(status_) ? WEXITSTATUS(status_) : 128 + WTERMSIG(status_);
    if (late_)
      out.text = error(hktTimeout, "no answer within %.3g s", patience_ms_ / 1000.0);
    else if (too_long_)
      out.text = error(hktRemoteError, "%s prints more than 1 MiB", name_.c_str());
    else if (code == 127)
      out.text = error(hktRemoteError, "%s or what it should run is not there", name_.c_str());
    else if (code > 1)
      out.text = error(hktRemoteError, "%s ends with status %d", name_.c_str(), code);
    return out;
  }

 private:
  std::string name_, text_;
  double begun_ = 0;
  int patience_ms_ = 0;
  pid_t pid_ = -1;
  int status_ = 0;
  bool late_ = false, too_long_ = false;
  Fd from_;
  Deadline deadline_ = Deadline::never();
};

}  // namespace

std::vector<std::string> split(const std::string& text, char by) {
  std::vector<std::string> out;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(by, at), text.size());
    if (end > at) out.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

Result<std::vector<std::string>> remote_command(const std::string& text) {
  std::vector<std::string> out = split(text, ' ');
  if (out.empty())
    return error(hktInvalidUsage, "--remote is %s: give the command that runs a command line on a host, such as ssh",
                 in_quotes(text).c_str());
  return out;
}

std::string quoted(const std::string& word) {
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string own_path() {
  char path[PATH_MAX];
  const ssize_t n = readlink("/proc/self/exe", path, sizeof path);
  return n > 0 ? std::string(path, static_cast<size_t>(n)) : "hocket";
}

std::string current_directory() {
  char path[PATH_MAX];
  return getcwd(path, sizeof path) != nullptr ? path : "/";
}

std::vector<std::string> own_settings() {
  std::vector<std::string> out;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const auto begins = [&](const char* start) { return text.rfind(start, 0) == 0; };
    const auto is = [&](const char* name) { return text.substr(0, text.find('=')) == name; };
    if (!begins("HOCKET_") && !begins("HCCL_") && !begins("NCCL_")) continue;
    if (std::none_of(std::begin(kOfOneHost), std::end(kOfOneHost), is)) out.push_back(text);
  }
  return out;
}

std::vector<Answer> ask(const std::vector<std::vector<std::string>>& commands, int patience_ms) {
  std::vector<Answer> out(commands.size());
  std::vector<std::pair<size_t, Asked>> running;
  size_t next = 0;
  while (next < commands.size() || !running.empty()) {
    while (next < commands.size() && running.size() < kAtOnce) {
      Asked asked;
      if (Status begun = asked.begin(commands[next], patience_ms); begun.ok())
        running.emplace_back(next, std::move(asked));
      else
        out[next].text = begun.error();
      ++next;
    }
    std::vector<pollfd> polls;
    bool closed = false;  // one of them prints nothing more, and is waited for
    for (const auto& entry : running) {
      polls.push_back({entry.second.fd(), POLLIN, 0});
      closed = closed || entry.second.fd() < 0;
    }
    int patience = closed ? 10 : 1000;
    for (const auto& entry : running) patience = std::min(patience, entry.second.deadline().left_ms(patience));
    poll(polls.data(), polls.size(), patience);
    std::vector<std::pair<size_t, Asked>> left;
    for (size_t i = 0; i < running.size(); ++i) {
      if (running[i].second.goes_on(polls[i].revents != 0))
        left.push_back(std::move(running[i]));
      else
        out[running[i].first] = running[i].second.answer();
    }
    running = std::move(left);
  }
  return out;
}

}  // namespace hocket::tool
