// The board of PMIx: Open MPI's mpirun, PRRTE, srun --mpi=pmix. libpmix is loaded at run time: nothing is needed to
// build with it. The few types below are those of the PMIx standard's ABI (versions 3 to 5).
//
// The session stays open until the process ends: PMIx_Finalize before Open MPI's MPI_Init would break that, and an end
// of the process without it makes mpirun abort the job.
#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>

#include "base/text.h"
#include "base/thread_annotations.h"
#include "bootstrap/board.h"

namespace hocket {
namespace {

struct Proc {
  char nspace[256];
  uint32_t rank;
};
struct Value {
  uint16_t type;
  union {
    bool flag;
    char* string;
    uint32_t u32;
    char room[24];
  } data;
};
struct Info {
  char key[512];
  uint32_t flags;
  Value value;
};
static_assert(sizeof(Proc) == 260 && sizeof(Value) == 32 && sizeof(Info) == 552);
constexpr uint16_t kBool = 1, kString = 3, kUint32 = 14;
constexpr uint8_t kGlobal = 3;
constexpr uint32_t kAllRanks = 0xfffffffe;
constexpr int kSuccess = 0;

using Done = void (*)(int status, void* data);

struct Library {
  int (*init)(Proc*, Info*, size_t) = nullptr;
  int (*finalize)(const Info*, size_t) = nullptr;
  int (*put)(uint8_t, const char*, Value*) = nullptr;
  int (*commit)() = nullptr;
  int (*fence)(const Proc*, size_t, const Info*, size_t, Done, void*) = nullptr;
  int (*get)(const Proc*, const char*, const Info*, size_t, Value**) = nullptr;
  const char* (*text)(int) = nullptr;
};

template <class F>
bool find(void* handle, const char* name, F& function) {
  function = reinterpret_cast<F>(dlsym(handle, name));
  return function != nullptr;
}

Result<Library> load() {
  void* handle = dlopen("libpmix.so.2", RTLD_NOW | RTLD_GLOBAL);
  if (handle == nullptr) {
    return error(hktInvalidUsage,
                 "this process was started through PMIx, but libpmix.so.2 cannot be loaded (%s): install it (Debian: "
                 "libpmix2) or add its folder to LD_LIBRARY_PATH, or set HOCKET_INIT to a tcp:// or file:// URL",
                 one_line(dlerror()).c_str());
  }
  Library out;
  if (find(handle, "PMIx_Init", out.init) && find(handle, "PMIx_Finalize", out.finalize) &&
      find(handle, "PMIx_Put", out.put) && find(handle, "PMIx_Commit", out.commit) &&
      find(handle, "PMIx_Fence_nb", out.fence) && find(handle, "PMIx_Get", out.get) &&
      find(handle, "PMIx_Error_string", out.text))
    return out;
  return error(hktInvalidUsage, "libpmix.so.2 lacks a function of PMIx 3: %s", one_line(dlerror()).c_str());
}

// The session of this process: PMIx counts how often it is opened, and is to be closed as often.
struct Session {
  Library library;
  Proc me{};
  int rank = -1;
  int nranks = -1;
};
pid_t opened_by = 0;  // for the handler of exit, which takes no argument
int (*close_session)(const Info*, size_t) = nullptr;

Error failed(const Library& library, const char* call, int status) {
  return error(hktRemoteError, "%s fails: %s (%d): is the PMIx server of the launcher (PMIX_SERVER_URI*) still there?",
               call, library.text(status), status);
}

Result<Session> open_session() {
  Session out;
  HKT_ASSIGN(out.library, load());
  if (const int rc = out.library.init(&out.me, nullptr, 0); rc != kSuccess) return failed(out.library, "PMIx_Init", rc);
  opened_by = getpid();
  close_session = out.library.finalize;
  std::atexit([] {
    if (getpid() == opened_by) close_session(nullptr, 0);
  });
  out.rank = static_cast<int>(out.me.rank);
  Proc all = out.me;
  all.rank = kAllRanks;
  Value* size = nullptr;
  if (const int rc = out.library.get(&all, "pmix.job.size", nullptr, 0, &size); rc != kSuccess)
    return failed(out.library, "PMIx_Get of pmix.job.size", rc);
  const bool good = size->type == kUint32 && size->data.u32 >= 1 && size->data.u32 <= uint32_t{kMaxRanks};
  if (good) out.nranks = static_cast<int>(size->data.u32);
  std::free(size);
  if (!good) return error(hktRemoteError, "the PMIx server tells no size of the job");
  return out;
}

// Opened at the first use, for the rest of the process's life; a failure stays one.
const Result<Session>& session() {
  static const Result<Session> instance = open_session();
  return instance;
}

class PmixBoard final : public Board {
 public:
  PmixBoard(const Session& s, const Identity& me) : s_(s), key_("hocket." + std::to_string(me.bring_up)) {}

  Seat seat() const override { return {s_.rank, s_.nranks}; }

  Status post(const std::string& notice, Deadline deadline) override {
    Value value{};
    value.type = kString;
    std::string copy = notice;
    value.data.string = copy.data();
    if (const int rc = s_.library.put(kGlobal, key_.c_str(), &value); rc != kSuccess)
      return failed(s_.library, "PMIx_Put", rc);
    if (const int rc = s_.library.commit(); rc != kSuccess) return failed(s_.library, "PMIx_Commit", rc);
    return fence(deadline);
  }

  Result<std::string> read(Deadline deadline) override {
    if (!notice_.empty()) return notice_;
    HKT_TRY(fence(deadline));
    Proc rank0 = s_.me;
    rank0.rank = 0;
    Value* value = nullptr;
    if (const int rc = s_.library.get(&rank0, key_.c_str(), nullptr, 0, &value); rc != kSuccess)
      return failed(s_.library, "PMIx_Get", rc);
    const bool good = value->type == kString && value->data.string != nullptr;
    if (good) {
      notice_ = value->data.string;
      std::free(value->data.string);
    }
    std::free(value);
    if (!good) return error(hktRemoteError, "the PMIx server hands out no text for %s", key_.c_str());
    return notice_;
  }

 private:
  // Its end may come after nobody waits any more.
  struct Fence {
    std::mutex mutex;
    std::condition_variable changed;
    bool done = false;
    int status = 0;
  };

  // A barrier of all ranks that carries what was put. It has no deadline of its own.
  Status fence(Deadline deadline) {
    Info collect{};
    std::strncpy(collect.key, "pmix.collect", sizeof collect.key - 1);
    collect.value.type = kBool;
    collect.value.data.flag = true;
    auto state = std::make_shared<Fence>();
    auto handle = std::make_unique<std::shared_ptr<Fence>>(state);
    const Done done = [](int status, void* data) {
      const std::unique_ptr<std::shared_ptr<Fence>> mine(static_cast<std::shared_ptr<Fence>*>(data));
      const std::lock_guard lock((*mine)->mutex);
      (*mine)->done = true;
      (*mine)->status = status;
      (*mine)->changed.notify_all();
    };
    auto* const given = handle.release();  // the callback's, if there will be one
    const int rc = s_.library.fence(nullptr, 0, &collect, 1, done, given);
    if (rc != kSuccess) {
      handle.reset(given);
      return failed(s_.library, "PMIx_Fence_nb", rc);
    }
    std::unique_lock lock(state->mutex);
    const auto until = std::chrono::system_clock::now() + std::chrono::milliseconds(deadline.left_ms());
    if (!state->changed.wait_until(lock, until, [&] { return state->done; })) {
      return error(hktTimeout,
                   "rank %d of %d: not all ranks have come to the fence of the PMIx server before the deadline, and it "
                   "does not say which: look at their output, or raise HOCKET_INIT_TIMEOUT",
                   s_.rank, s_.nranks);
    }
    return state->status == kSuccess ? Status() : failed(s_.library, "PMIx_Fence_nb", state->status);
  }

  const Session& s_;
  const std::string key_;
  std::string notice_;
};

}  // namespace

Result<std::unique_ptr<Board>> open_pmix_board(const Identity& me, Deadline) {
  const Result<Session>& s = session();
  if (!s.ok()) return Error(s.error());
  return std::unique_ptr<Board>(std::make_unique<PmixBoard>(s.value(), me));
}

}  // namespace hocket
