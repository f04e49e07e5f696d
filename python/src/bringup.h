// Ranks meet through the store that torch gives a back end.
#pragma once

#include <hocket/hocket.h>

#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace hocket::pg {

struct Place {
  int rank, size;
};
// hktCommInitStore over a clone of `store`. Keys begin with how often this rank has met others there: torchrun's store
// keeps those of process groups that have been destroyed. `text`: of a failure, with what the store
// threw last.
hktResult_t meet(c10d::Store& store, const Place& place, const hktConfig_t& config, hktComm_t* comm, std::string& text);

}  // namespace hocket::pg
