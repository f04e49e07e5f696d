// The store of a job whose ranks know from their launcher where they can meet: rank 0 serves a TCP store, and the
// others learn of its addresses from the launcher's board, or look for it.
#pragma once

#include <memory>

#include "base/secret.h"
#include "bootstrap/identity.h"
#include "bootstrap/store.h"

namespace hocket {

// `me.place` says how; rank and size that only the launcher's server knows are filled in.
Result<std::unique_ptr<Store>> open_launcher_store(Identity& me, const SharedSecret& secret, Deadline deadline);

}  // namespace hocket
