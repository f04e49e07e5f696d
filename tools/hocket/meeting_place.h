// Where the ranks of a job on one machine meet.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <string>
#include <utility>

#include "base/result.h"

namespace hocket::tool {

// A directory of this job alone; it goes with the object.
class MeetingPlace {
 public:
  static Result<std::string> make() {
    const char* tmp = std::getenv("TMPDIR");
    std::string path = std::string(tmp != nullptr && *tmp != '\0' ? tmp : "/tmp") + "/hocket.XXXXXX";
    if (mkdtemp(path.data()) == nullptr)
      return sys_error("cannot make a directory %s for the ranks to meet; set TMPDIR", path.c_str());
    return path;
  }
  explicit MeetingPlace(std::string path) : path_(std::move(path)) {}
  ~MeetingPlace() {
    unlink(file().c_str());
    rmdir(path_.c_str());
  }
  MeetingPlace(const MeetingPlace&) = delete;
  MeetingPlace& operator=(const MeetingPlace&) = delete;
  std::string url() const { return "file://" + file(); }

 private:
  std::string file() const { return path_ + "/meet"; }
  std::string path_;
};

}  // namespace hocket::tool
