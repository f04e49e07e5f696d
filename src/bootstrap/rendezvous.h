// Rendezvous: the ranks of a job find each other, check that they belong together, and exchange bytes until they are
// connected. Everything happens under one deadline, over one of the stores.
//
// Errors. Whatever goes wrong on one rank during bring-up, every rank that is there returns that error from its present
// or next operation: a rank that did not come (all of them are named), two processes with one rank, different sizes or
// versions, a rank that died, or an error that the communicator gives to fail(). One thread per object.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/deadline.h"
#include "base/result.h"
#include "base/secret.h"
#include "bootstrap/identity.h"
#include "bootstrap/store.h"
#include "bootstrap/tcp_protocol.h"
#include "bootstrap/unique_id.h"
#include "hocket/hocket.h"

namespace hocket {

// For tests: what a process says that it is.
struct RendezvousOptions {
  uint32_t version = HKT_VERSION_CODE;
  uint16_t wire_version = tcp_protocol::kWireVersion;
  std::optional<SharedSecret> secret = {};  // instead of that of the environment
};

class Rendezvous {
 public:
  // From what parse_url says; from a unique id; from callbacks of the caller (`store`'s ctx must outlive the object).
  static Result<std::unique_ptr<Rendezvous>> open(const Identity& me, Deadline deadline,
                                                  const RendezvousOptions& options = {});
  static Result<std::unique_ptr<Rendezvous>> open(const hktUniqueId& id, int nranks, int rank, Deadline deadline,
                                                  const RendezvousOptions& options = {});
  static Result<std::unique_ptr<Rendezvous>> open(const hktStore_t& store, int nranks, int rank, Deadline deadline,
                                                  const RendezvousOptions& options = {});
  // Leaves with an error for the others if neither leave() nor fail() was called.
  ~Rendezvous();
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;

  int rank() const { return rank_; }
  int nranks() const { return nranks_; }
  // 64 random bits that all ranks of this job share and no other job has: what strangers at their ports cannot know.
  uint64_t nonce() const { return nonce_; }
  // Every rank's bytes (each at most Store::kMaxValue), index = rank. All ranks call it with the same `name`, each name
  // once.
  Result<std::vector<std::string>> all_gather(std::string_view name, std::string_view mine);
  // Returns when every rank has called it with this name.
  Status barrier(std::string_view name);

  // Of the job; null: it has none.
  const SharedSecret& secret() const { return secret_; }
  // What this rank has asked of the server, so far or in all.
  Store::Traffic traffic() const { return store_ != nullptr ? store_->traffic() : traffic_; }

  // This rank cannot go on: every other rank returns `error`. Ends the rendezvous.
  void fail(const Error& error);
  // The last step of a bring-up that went well; after it the store is gone. On rank 0 of a tcp:// job it waits for the
  // others, whose server it runs.
  Status leave();

 private:
  struct Card;
  Rendezvous(int nranks, int rank, SharedSecret secret, Deadline deadline);
  using OpenStore = std::function<Result<std::unique_ptr<Store>>()>;
  struct Facts {  // what ranks tell one another when they meet
    uint32_t version = HKT_VERSION_CODE;
    const rank_table::SharedTable* table = nullptr;
  };
  static Result<std::unique_ptr<Rendezvous>> open_with(const OpenStore& open_store,
                                                       std::unique_ptr<Rendezvous> rendezvous, const Facts& facts);
  Status meet(const Facts& facts);
  Result<int> check_cards(const Card& mine);
  Result<int> wait_for_check(const Card& mine);
  std::string met_claim(std::string_view verdict) const;
  Error who_is_absent();
  static bool is_mine(const Card& mine, const std::string& bytes);
  Status agree_on_job(const Store::Found& job, uint32_t version);
  Status check_card(int rank, const std::string& bytes, const Card& mine, Card& card) const;
  Error duplicate(const Card& mine, const std::string& bytes) const;
  Error absent(const Store::Found& found, std::string_view step);
  // Publishes and returns.
  Error publish(Error error);

  const int rank_;
  const int nranks_;
  const int64_t start_ns_;
  const Deadline deadline_;
  uint64_t nonce_ = 0;
  SharedSecret secret_;
  std::unique_ptr<Store> store_;  // null once left
  Store::Traffic traffic_;        // at the end
};

}  // namespace hocket
