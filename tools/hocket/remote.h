// What subcommands that run something on other hosts share.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace hocket::tool {

// How a command line gets to another host, unless --remote says otherwise: without questions, and a host that is dead
// is noticed within 15 s.
constexpr const char* kSsh =
    "ssh -o BatchMode=yes -o ConnectTimeout=10 -o ServerAliveInterval=5 -o ServerAliveCountMax=3";
// Variables whose values are those of one host: the others have, or have not, their own.
constexpr const char* kOfOneHost[] = {"HCCL_IF_IP", "HOCKET_HOST_ID", "NCCL_HOSTID"};

// The pieces between `by`, without empty ones.
std::vector<std::string> split(const std::string& text, char by);
// The words of --remote, to which a host and a command line are added; hktInvalidUsage if there are none.
Result<std::vector<std::string>> remote_command(const std::string& text);
// A word of a shell's command line that means itself.
std::string quoted(const std::string& word);
// The path of this program: what is to be found on the other hosts, too.
std::string own_path();
std::string current_directory();
// NAME=value of what steers Hocket here, and so on the other hosts: HOCKET_*, HCCL_* and NCCL_*, without kOfOneHost.
std::vector<std::string> own_settings();

// What a command has printed, or why there is nothing; and when it was started and had ended, in s since 1970.
struct Answer {
  Result<std::string> text = std::string();
  double begun = 0, ended = 0;
};
// Runs all commands, some at a time, each for `patience_ms` at most: who takes longer, or prints more than 1 MiB, is
// ended with all that it has started. An exit status above 1 is an error. Their standard input is empty.
std::vector<Answer> ask(const std::vector<std::vector<std::string>>& commands, int patience_ms);

}  // namespace hocket::tool
