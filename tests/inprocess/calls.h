// Calls that do not block, as tests make them: ranks are threads, failures are gtest failures.
#pragma once

#include <cstring>
#include <optional>
#include <vector>

#include "comm/children.h"
#include "comm/p2p.h"
#include "comm/thread.h"
#include "comm/vectors.h"
#include "inprocess/world.h"

namespace hocket::test {

struct Where {
  const char* name;
  const char* transport;
  int hosts;
  bool small;                                  // slots
  std::optional<tcp::Striping> striping = {};  // none: one connection per pair
};
inline const Where kPlaces[] = {{"Shm", "shm", 1, false},
                                {"ShmSmall", "shm", 1, true},
                                {"Tcp", "tcp", 1, false},
                                {"TcpSmall", "tcp", 1, true},
                                {"Mixed", "auto", 2, false}};

class Places : public testing::TestWithParam<Where> {
 protected:
  WorldSpec world(int n) const {
    WorldSpec spec;
    spec.n = n;
    spec.transport = GetParam().transport;
    spec.hosts = GetParam().hosts;
    if (GetParam().small) spec.geometry = small_rings();
    spec.striping = GetParam().striping;
    return spec;
  }
};
inline std::string place_name(const testing::TestParamInfo<Where>& info) { return info.param.name; }

inline void good(const Status& s) { ASSERT_TRUE(s.ok()) << s.error().text; }
inline Status wait(hktRequest_t r) {
  bool done = false;
  Status s = wait_request(r, done);
  EXPECT_TRUE(done || !s.ok());
  return s;
}
inline CallOptions into(hktRequest_t& r) {
  CallOptions o;
  o.request = &r;
  return o;
}

inline unsigned char byte_of(int from, int tag, uint64_t i) {
  return static_cast<unsigned char>(static_cast<uint64_t>(from) * 37 + static_cast<uint64_t>(tag) * 101 + i * 7 +
                                    i / 251);
}
inline std::vector<unsigned char> message(int from, int tag, uint64_t bytes) {
  std::vector<unsigned char> m(bytes);
  for (uint64_t i = 0; i < bytes; ++i) m[i] = byte_of(from, tag, i);
  return m;
}
inline void expect_message(const std::vector<unsigned char>& got, int from, int tag) {
  for (uint64_t i = 0; i < got.size(); ++i)
    ASSERT_EQ(got[i], byte_of(from, tag, i))
        << "byte " << i << " of " << got.size() << " from rank " << from << ", tag " << tag;
}
inline TransferSpec send_to(int peer, int tag, std::vector<unsigned char>& m) {
  return {m.data(), m.size(), hktUint8, peer, tag, Channel::user, true};
}
inline TransferSpec recv_from(int peer, int tag, std::vector<unsigned char>& m) {
  return {m.data(), m.size(), hktUint8, peer, tag, Channel::user, false};
}

}  // namespace hocket::test
