// The secret of a job and the proof of knowing it: where it comes from, what is said, and what becomes of those who do
// not have it.
#include "base/secret.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "base/proof.h"
#include "base/socket.h"
#include "unit/environment.h"

namespace hocket {
namespace {

constexpr const char* kBytes = "correct horse battery staple";

SharedSecret secret_of(const std::string& bytes) {
  auto made = Secret::make(bytes, "this test");
  EXPECT_TRUE(made.ok()) << made.error().text;
  return made.ok() ? *made : nullptr;
}

std::string hex(const Secret::Mac& mac) {
  std::string out;
  for (const char c : mac) out += format("%02x", static_cast<unsigned char>(c));
  return out;
}

// RFC 4231, test cases 1 and 3.
TEST(Secret, MakesTheCodesOfTheStandard) {
  EXPECT_EQ(hex(secret_of(std::string(20, '\x0b'))->mac("Hi There").value()),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(hex(secret_of(std::string(20, '\xaa'))->mac(std::string(50, '\xdd')).value()),
            "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe");
}

TEST(Secret, ProvesOnlyWhatItIs) {
  const SharedSecret secret = secret_of(kBytes);
  const Secret::Mac mac = secret->mac("text").value();
  const std::string proof(mac.data(), mac.size());
  EXPECT_TRUE(secret->proves(proof, "text"));
  EXPECT_FALSE(secret->proves(proof, "texT"));
  EXPECT_FALSE(secret->proves(proof.substr(0, 31), "text"));
  EXPECT_FALSE(secret->proves("", "text"));
  EXPECT_FALSE(secret_of("another one of a job")->proves(proof, "text"));
}

class SecretFile : public testing::Test {
 protected:
  void SetUp() override {
    std::ofstream(path_) << kBytes << "\n";
    ASSERT_EQ(chmod(path_.c_str(), 0600), 0);
  }
  void TearDown() override { unlink(path_.c_str()); }
  // The error of reading it, "" if there is none.
  std::string read() {
    const ScopedEnvironment variables(Variables{{"HOCKET_SECRET_FILE", path_}});
    const auto secret = Secret::from_environment();
    return secret ? "" : secret.error().text;
  }
  const std::string path_ = testing::TempDir() + "/secret." + std::to_string(getpid());
};

TEST_F(SecretFile, HoldsTheSecretWithoutItsNewline) {
  const ScopedEnvironment variables(Variables{{"HOCKET_SECRET_FILE", path_}});
  const auto read = Secret::from_environment();
  ASSERT_TRUE(read.ok()) << read.error().text;
  EXPECT_EQ(read.value()->mac("x").value(), secret_of(kBytes)->mac("x").value());
}

TEST_F(SecretFile, MustBeTheUsersAlone) {
  for (const mode_t mode : {0644, 0640, 0660, 0606, 0700, 0200, 0440}) {
    ASSERT_EQ(chmod(path_.c_str(), mode), 0);
    EXPECT_NE(
        read().find(format("has mode %04o, and must have 0600 or 0400, so that nobody else can read it: chmod 600 '",
                           static_cast<unsigned>(mode))),
        std::string::npos)
        << read();
  }
  for (const mode_t mode : {0600, 0400}) {
    ASSERT_EQ(chmod(path_.c_str(), mode), 0);
    EXPECT_EQ(read(), "");
  }
  if (geteuid() != 0) return;  // only root can give it away
  ASSERT_EQ(chown(path_.c_str(), 12345, 0), 0);
  EXPECT_NE(read().find("belongs to user 12345, but this process is of user 0"), std::string::npos) << read();
}

TEST_F(SecretFile, MustBeThereAndAFile) {
  unlink(path_.c_str());
  EXPECT_NE(read().find("cannot be read: No such file"), std::string::npos) << read();
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  EXPECT_NE(read().find("is no regular file"), std::string::npos) << read();
}

TEST_F(SecretFile, HasABoundedLength) {
  for (const size_t size : {size_t{0}, size_t{15}, size_t{4097}, size_t{1} << 20}) {
    std::ofstream(path_) << std::string(size, 'q');
    const std::string error = read();
    EXPECT_NE(error.find("bytes: use 16 to 4096"), std::string::npos) << error;
    EXPECT_EQ(error.find("qq"), std::string::npos) << "the secret is in the error";
  }
  std::ofstream(path_) << std::string(4096, 'q');
  EXPECT_EQ(read(), "");
}

TEST_F(SecretFile, ContradictsTheVariable) {
  const ScopedEnvironment variables(Variables{{"HOCKET_SECRET_FILE", path_}, {"HOCKET_SECRET", kBytes}});
  const auto secret = Secret::from_environment();
  ASSERT_FALSE(secret.ok());
  EXPECT_EQ(secret.error().text, "HOCKET_SECRET and HOCKET_SECRET_FILE are both set: unset one");
}

TEST(Secret, MustNotBeLostOnTheWay) {
  const std::pair<const char*, const char*> cases[] = {
      {"HOCKET_SECRET", "HOCKET_SECRET is set and empty: give it the secret, or unset it"},
      {"HOCKET_SECRET_FILE", "HOCKET_SECRET_FILE is set and empty: give it the secret's file, or unset it"}};
  for (const auto& [name, text] : cases) {
    const ScopedEnvironment variables(Variables{{name, ""}});
    const auto secret = Secret::from_environment();
    ASSERT_FALSE(secret.ok());
    EXPECT_EQ(secret.error().code, hktInvalidUsage);
    EXPECT_EQ(secret.error().text, text);
  }
}

TEST(Secret, NeedsLibcrypto) {
  const auto secret = Secret::make(kBytes, "HOCKET_SECRET", {"libno-such-crypto.so.1", "libm.so.6"});
  ASSERT_FALSE(secret.ok());
  EXPECT_EQ(secret.error().code, hktSystemError);
  EXPECT_EQ(secret.error().text,
            "HOCKET_SECRET is set, but libcrypto, which proves that a rank knows the secret, cannot be loaded (tried: "
            "libno-such-crypto.so.1, libm.so.6): install OpenSSL's library (libssl3 on Debian), or unset it on all "
            "ranks");
}

// Two sides and what each says to the other, in one thread.
struct Talk {
  Talk(SharedSecret a, SharedSecret b)
      : connects(Handshake::connecting(std::move(a), "the server")),
        accepts(Handshake::accepting(std::move(b), "the client", "HKTB", &seen)) {}
  // Until neither has anything to say; the error of a side, "" if it has none.
  void run() {
    std::string to_server = connects.first(), to_client;
    for (int i = 0; i < 10 && !(to_server.empty() && to_client.empty()); ++i) {
      feed(accepts, to_server, to_client, server_error);
      heard_by_client += to_client;
      feed(connects, to_client, to_server, client_error);
      heard_by_server += to_server;
    }
  }
  static void feed(Handshake& side, std::string& in, std::string& out, std::string& error) {
    while (error.empty() && side.expects() != 0 && in.size() >= side.expects()) {
      std::string reply;
      const std::string part = in.substr(0, side.expects());
      in.erase(0, part.size());
      const Status taken = side.take(part, reply);
      if (!taken.ok()) error = taken.error().text;
      out += reply;
    }
    if (!error.empty()) in.clear();
  }
  SeenProofs seen;
  Handshake connects, accepts;
  std::string client_error, server_error, heard_by_client, heard_by_server;
};

TEST(Proof, BothSidesKnowTheSecret) {
  Talk talk(secret_of(kBytes), secret_of(kBytes));
  talk.run();
  EXPECT_EQ(talk.client_error + talk.server_error, "");
  EXPECT_EQ(talk.connects.expects(), 0U);
  EXPECT_EQ(talk.accepts.expects(), 0U);
  EXPECT_EQ((talk.heard_by_client + talk.heard_by_server).find(kBytes), std::string::npos);
}

TEST(Proof, NeitherProofHoldsOnAnotherConnection) {
  Talk first(secret_of(kBytes), secret_of(kBytes)), second(secret_of(kBytes), secret_of(kBytes));
  first.run();
  second.run();
  EXPECT_NE(first.heard_by_client, second.heard_by_client);
  EXPECT_NE(first.heard_by_server, second.heard_by_server);
}

TEST(Proof, AnotherSecretIsAnErrorOnBothSides) {
  Talk talk(secret_of(kBytes), secret_of("incorrect horse battery"));
  talk.run();
  EXPECT_EQ(talk.client_error,
            "the server has another job secret than this process: give all ranks the same HOCKET_SECRET, or the same "
            "HOCKET_SECRET_FILE");
  EXPECT_EQ(talk.server_error,
            "the client has another job secret than this process: give all ranks the same HOCKET_SECRET, or the same "
            "HOCKET_SECRET_FILE");
}

// What goes over a connection to a side that accepts; returns its error and what it said last.
std::pair<std::string, std::string> say(Handshake& side, std::string bytes) {
  std::string error, out;
  Talk::feed(side, bytes, out, error);
  return {error, out};
}

TEST(Proof, AReplayIsAnErrorOnBothSides) {
  const SharedSecret secret = secret_of(kBytes);
  SeenProofs seen;
  // An honest connection, overheard.
  Handshake client = Handshake::connecting(secret, "the server");
  Handshake server = Handshake::accepting(secret, "the client", "HKTB", &seen);
  const std::string challenge = client.first();
  auto [error, answer] = say(server, challenge);
  ASSERT_EQ(error, "");
  auto [client_error, proof] = say(client, answer);
  ASSERT_EQ(client_error, "");
  ASSERT_EQ(say(server, proof).first, "");
  ASSERT_EQ(server.expects(), 0U);
  // The same bytes once more.
  Handshake again = Handshake::accepting(secret, "the thief", "HKTB", &seen);
  ASSERT_EQ(say(again, challenge).first, "");
  const auto [replayed, refusal] = say(again, proof);
  EXPECT_EQ(replayed, "the thief repeats a proof that was heard on another connection: it is a replay");
  const auto told = refusal_in(refusal, "the server");
  ASSERT_TRUE(told.has_value());
  EXPECT_EQ(told->text, "the server has heard this process's proof before, on another connection: it is a replay");
  // An answer of the server is none of a client: nobody can be made to prove something for another.
  Handshake mirror = Handshake::accepting(secret, "the thief", "HKTB", &seen);
  ASSERT_EQ(say(mirror, challenge).first, "");
  std::string reflected = answer.substr(24);
  EXPECT_NE(say(mirror, proof.substr(0, 8) + reflected).first, "");
}

TEST(Proof, WhoHasNoSecretIsToldSo) {
  SeenProofs seen;
  Handshake side = Handshake::accepting(secret_of(kBytes), "the client", "HKTB", &seen);
  const auto [error, answer] = say(side, std::string("HKTB\2\0\0\0", 8));
  EXPECT_EQ(error, "the client shows no job secret, and this process has one");
  const auto told = refusal_in(answer, "the server");
  ASSERT_TRUE(told.has_value());
  EXPECT_NE(told->text.find("the server has a job secret, and this process has none"), std::string::npos);

  Handshake other = Handshake::connecting(secret_of(kBytes), "the server");
  EXPECT_TRUE(is_of_secret(other.first()));
  const auto [mine, nothing] = say(other, no_secret_here());
  EXPECT_NE(mine.find("this process has a job secret, and the server has none"), std::string::npos) << mine;
}

TEST(Proof, AStrangerGetsNoAnswer) {
  SeenProofs seen;
  Handshake side = Handshake::accepting(secret_of(kBytes), "the client", "HKTB", &seen);
  const auto [error, answer] = say(side, "GET / HT");
  EXPECT_NE(error, "");
  EXPECT_EQ(answer, "");
}

TEST(Proof, GoesOverASocketInPieces) {
  const SharedSecret secret = secret_of(kBytes);
  auto pair = socket_pair();
  ASSERT_TRUE(pair.ok());
  SeenProofs seen;
  Handshake client = Handshake::connecting(secret, "the server");
  Handshake server = Handshake::accepting(secret, "the client", "HKTB", &seen);
  bool up = false;
  for (int i = 0; i < 10 && !up; ++i) {
    const auto a = client.advance(pair->first.get());
    const auto b = server.advance(pair->second.get());
    ASSERT_TRUE(a.ok()) << a.error().text;
    ASSERT_TRUE(b.ok()) << b.error().text;
    up = a.value() && b.value();
  }
  EXPECT_TRUE(up);
}

}  // namespace
}  // namespace hocket
