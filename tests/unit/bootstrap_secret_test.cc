// A job with a secret: three ranks that have it, or not all of them; whoever else is at the port; and nothing of it in
// what is written.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "base/proof.h"
#include "bootstrap/tcp_protocol.h"
#include "unit/bootstrap_jobs.h"
#include "unit/environment.h"

namespace hocket::bringup {
namespace {

constexpr const char* kRight = "the right secret of this job";
constexpr const char* kWrong = "a wrong one, and as long";

// Read at the first line that is logged.
const std::string log_path = testing::TempDir() + "/secret-log." + std::to_string(getpid());
const ScopedEnvironment log_settings(Variables{{"HOCKET_DEBUG", "TRACE"}, {"HOCKET_DEBUG_FILE", log_path}});

SharedSecret secret_of(const char* bytes) {
  if (bytes == nullptr) return nullptr;
  auto made = Secret::make(bytes, "this test");
  EXPECT_TRUE(made.ok()) << made.error().text;
  return made.ok() ? *made : nullptr;
}

// The errors of ranks with these secrets, whose server (of a unique id) has the first one's.
std::vector<std::string> run_with(Kind kind, const std::vector<const char*>& secrets, int deadline_ms) {
  Variables variables;
  if (secrets[0] != nullptr) variables["HOCKET_SECRET"] = secrets[0];
  const ScopedEnvironment environment(variables);
  Place place(kind);
  std::vector<Process> all = processes(up_to(static_cast<int>(secrets.size())), static_cast<int>(secrets.size()));
  for (size_t i = 0; i < all.size(); ++i) all[i].options.secret = secret_of(secrets[i]);
  std::vector<std::string> errors = run(place, all, deadline_ms);
  for (const std::string& error : errors) {
    EXPECT_FALSE(contains(error, kRight)) << error;
    EXPECT_FALSE(contains(error, kWrong)) << error;
  }
  return errors;
}

bool has_server(Kind kind) { return kind == Kind::tcp || kind == Kind::unique_id; }

class Secrets : public testing::TestWithParam<Kind> {};

TEST_P(Secrets, RanksThatHaveItMeet) {
  for (const std::string& error : run_with(GetParam(), {kRight, kRight, kRight}, 10'000)) EXPECT_EQ(error, "");
}

TEST_P(Secrets, ARankWithoutItIsRefused) {
  const auto errors = run_with(GetParam(), {kRight, kRight, nullptr}, 1000);
  if (!has_server(GetParam())) {
    return expect_all_say(errors, "has no job secret, rank 0 has one: give all ranks the same HOCKET_SECRET");
  }
  EXPECT_TRUE(contains(errors[2], "has a job secret, and this process has none: give all ranks the same")) << errors[2];
  for (const size_t r : {0, 1}) {
    EXPECT_TRUE(contains(errors[r], "rank 2 of 3 did not come within 1 s (refused: the process at ")) << errors[r];
    EXPECT_TRUE(contains(errors[r], "shows no job secret, and this process has one)")) << errors[r];
  }
}

TEST_P(Secrets, ARankWithAnotherOneIsRefused) {
  const auto errors = run_with(GetParam(), {kRight, kWrong, kRight}, 1000);
  if (!has_server(GetParam())) {
    return expect_all_say(errors, "has another job secret, rank 0 has its own: give all ranks the same HOCKET_SECRET");
  }
  EXPECT_TRUE(contains(errors[1], "has another job secret than this process: give all ranks the same")) << errors[1];
  for (const size_t r : {0, 2}) {
    EXPECT_TRUE(contains(errors[r], "rank 1 of 3 did not come within 1 s (refused: the process at ")) << errors[r];
    EXPECT_TRUE(contains(errors[r], "has another job secret than this process")) << errors[r];
  }
}

TEST_P(Secrets, TheFirstRankWithoutItIsRefused) {
  const auto errors = run_with(GetParam(), {nullptr, kRight, kRight}, 1000);
  if (!has_server(GetParam())) return expect_all_say(errors, "has a job secret, rank 0 has none: give all ranks");
  for (const size_t r : {1, 2}) {
    EXPECT_TRUE(contains(errors[r], "this process has a job secret, and ")) << errors[r];
    EXPECT_TRUE(contains(errors[r], "has none: give all ranks the same")) << errors[r];
  }
  EXPECT_TRUE(contains(errors[0], "ranks 1, 2 of 3 did not come within 1 s (refused: the process at ") ||
              contains(errors[0], "ranks 1 and 2 of 3 did not come within 1 s (refused: the process at "))
      << errors[0];
}

INSTANTIATE_TEST_SUITE_P(Every, Secrets,
                         testing::Values(Kind::tcp, Kind::file, Kind::unique_id, Kind::callbacks_refuse));

// The error of rank 1 of two, in whose store somebody changes what rank 0 has found.
std::string second_of_two(const std::function<bool(std::string& value)>& change, int deadline_ms) {
  MemoryStore store(MemoryStore::Twice::refuse);
  bool seen = false;
  store.on_put = [&](const std::string& key, std::string& value) {
    if (!contains(key, "met/0")) return true;
    seen = true;
    return change(value);
  };
  RendezvousOptions options;
  options.secret = secret_of(kRight);
  std::string error;
  std::optional<Result<std::unique_ptr<Rendezvous>>> zero;  // stays until rank 1 has what it gets
  std::thread first([&] { zero = Rendezvous::open(store.callbacks(), 2, 0, Deadline::in_ms(deadline_ms), options); });
  auto met = Rendezvous::open(store.callbacks(), 2, 1, Deadline::in_ms(deadline_ms), options);
  if (!met) error = met.error().text;
  first.join();
  EXPECT_TRUE(seen);
  return error;
}

TEST(SecretRendezvous, WhatRankZeroSaysIsProven) {
  EXPECT_EQ(second_of_two([](std::string&) { return true; }, 10'000), "");
  const std::string error = second_of_two(
      [](std::string& value) {
        value.back() = static_cast<char>(value.back() ^ 1);
        return true;
      },
      10'000);
  EXPECT_TRUE(contains(error, "who answers for rank 0 does not prove to know the job secret of rank 1")) << error;
}

TEST(SecretRendezvous, ARankZeroThatHasComeAndDoesNotAnswerIsNotCalledAbsent) {
  const std::string error = second_of_two([](std::string&) { return false; }, 500);
  EXPECT_TRUE(contains(error, "all ranks of 2 have come, but rank 0 has not compared what they say of themselves"))
      << error;
}

TEST(SecretRendezvous, ComesFromTheEnvironment) {
  Place place(Kind::tcp);
  const ScopedEnvironment environment(Variables{{"HOCKET_SECRET", kRight}});
  std::vector<Process> all = processes(up_to(3), 3);
  all[2].options.secret = secret_of(kRight);
  for (const std::string& error : run(place, all, 10'000)) EXPECT_EQ(error, "");
}

// Somebody who has overheard a rank, and one who has only read the protocol, while the job comes up.
TEST(SecretRendezvous, StrangersDoNotDisturb) {
  Place place(Kind::tcp);
  std::vector<Process> all = processes(up_to(3), 3);
  for (Process& p : all) p.options.secret = secret_of(kRight);
  std::vector<std::string> errors;
  std::thread two([&]() { errors = run(place, {all[0], all[1]}, 20'000); });
  const Deadline deadline = Deadline::in_ms(20'000);
  const auto connect = [&]() {
    for (;;) {
      auto fd = connect_to(Address::loopback(Family::v4, place.port()), deadline);
      if (fd || deadline.passed()) return fd ? std::move(*fd) : Fd();
      std::this_thread::yield();
    }
  };
  const auto say = [&](const Fd& fd, const std::string& bytes) {
    EXPECT_TRUE(send_all(fd.get(), bytes.data(), bytes.size(), deadline).ok());
  };
  const auto hear = [&](const Fd& fd, size_t size) {
    std::string bytes(size, '\0');
    EXPECT_TRUE(recv_all(fd.get(), bytes.data(), size, deadline).ok());
    return bytes;
  };
  // An honest proof, as it goes over the wire; its connection then ends before a request.
  Handshake honest = Handshake::connecting(secret_of(kRight), "the server");
  std::string none, proof;
  {
    const Fd fd = connect();
    say(fd, honest.first());
    ASSERT_TRUE(honest.take(hear(fd, honest.expects()), none).ok());
    ASSERT_TRUE(honest.take(hear(fd, honest.expects()), proof).ok());
    say(fd, proof);
    ASSERT_TRUE(honest.take(hear(fd, honest.expects()), none).ok());
    ASSERT_EQ(honest.expects(), 0U);
  }
  const Fd thief = connect();
  say(thief, honest.first());
  hear(thief, 56);
  say(thief, proof);
  const auto refusal = refusal_in(hear(thief, 8), "the server");
  ASSERT_TRUE(refusal.has_value());
  EXPECT_TRUE(contains(refusal->text, "it is a replay")) << refusal->text;

  // A hello without a proof, and requests behind it: nothing of them is looked at.
  const Fd liar = connect();
  const std::string fail = wire::pack_error(error(hktInternalError, "a lie"));
  say(liar, wire::Writer().raw("HKTB").u16(tcp_protocol::kWireVersion).u16(0).u32(2).u32(3).u64(0).take() +
                tcp_protocol::frame(tcp_protocol::Op::fail, fail));
  const auto told = refusal_in(hear(liar, 8), "the server");
  ASSERT_TRUE(told.has_value());
  EXPECT_TRUE(contains(told->text, "the server has a job secret, and this process has none")) << told->text;

  EXPECT_EQ(run(place, {all[2]}, 20'000)[0], "");
  two.join();
  for (const std::string& error : errors) EXPECT_EQ(error, "");
}

TEST(SecretRendezvous, TheFileOfAJobIsTheUsersAlone) {
  const mode_t before = umask(0);
  Place place(Kind::file);
  std::vector<Process> all = processes(up_to(3), 3);
  std::atomic<unsigned> mode{0};
  all[1].body = [&](Rendezvous& r) {
    struct stat s {};
    EXPECT_EQ(stat(place.path().c_str(), &s), 0);
    mode = s.st_mode & 07777U;
    return r.leave();
  };
  for (const std::string& error : run(place, all, 10'000)) EXPECT_EQ(error, "");
  umask(before);
  EXPECT_EQ(mode.load(), 0600U);
}

// The last of this program's tests: all that the others have logged.
TEST(SecretRendezvous, NothingOfItIsInTheLog) {
  std::stringstream log;
  log << std::ifstream(log_path).rdbuf();
  EXPECT_TRUE(contains(log.str(), "refused a connection: "));
  EXPECT_TRUE(contains(log.str(), "it is a replay"));
  EXPECT_FALSE(contains(log.str(), kRight));
  EXPECT_FALSE(contains(log.str(), kWrong));
  unlink(log_path.c_str());
}

}  // namespace
}  // namespace hocket::bringup
