// Whether all ranks of a job have the same table. Each tells the digest of its table with its card (rendezvous.h); only
// when they differ do lines go over the wire, to name the first that does.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/result.h"
#include "bootstrap/rank_table/rank_table.h"
#include "bootstrap/store.h"

namespace hocket::rank_table {

// What a table says, a line for the version, each server, each group and each rank, so that two tables that mean the
// same have the same lines, however their files are laid out.
struct SharedTable {
  struct Line {
    std::string text;
    json::Place place;  // in the file
  };
  std::string file;
  std::vector<Line> lines;
  uint64_t digest = 0;  // of all texts; never 0, which stands for no table
};

std::shared_ptr<const SharedTable> share(const RankTable& table);

// Called by every rank of a job in which the digests of rank 0 and of rank `odd`, the lowest that differs, are not the
// same. `mine` is null without a table. Ends in the error for all: rank `odd` finds the line and returns it, for the
// caller to publish; the others wait until the store gives it to them.
struct Side {
  const SharedTable* table = nullptr;
  int rank = 0;
};
Error explain_difference(Store& store, const Side& mine, int odd, Deadline deadline);

}  // namespace hocket::rank_table
