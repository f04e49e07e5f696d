// MeetingPlace: a directory of its own in which the ranks of one job meet, by a file URL.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>
#include <system_error>

namespace hocket::test {

class MeetingPlace {
 public:
  // ok() is false if there can be none. A child that leaves by _exit() does not take it away.
  MeetingPlace() : ok_(mkdtemp(path_) != nullptr) {}
  ~MeetingPlace() {
    std::error_code ignored;
    if (ok_) std::filesystem::remove_all(path_, ignored);
  }
  MeetingPlace(const MeetingPlace&) = delete;
  MeetingPlace& operator=(const MeetingPlace&) = delete;

  bool ok() const { return ok_; }
  // What is left here: nothing of a job that has ended in good order, at most the file "meet" of a killed one.
  std::set<std::string> contents() const {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(path_)) names.insert(entry.path().filename().string());
    return names;
  }
  std::string url(int rank, int n) const {
    return "file://" + std::string(path_) + "/meet?rank=" + std::to_string(rank) + "&world_size=" + std::to_string(n);
  }

 private:
  char path_[sizeof "/tmp/hocket-test.XXXXXX"] = "/tmp/hocket-test.XXXXXX";
  const bool ok_;
};

}  // namespace hocket::test
