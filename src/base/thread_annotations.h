// Lock facts written at the member they are about, checked by clang (-Wthread-safety); GCC sees nothing of them.
// std::mutex carries no annotations in libstdc++, so guarded members use Mutex and MutexLock from here.
#pragma once

#include <mutex>

#if defined(__clang__)
#define HKT_THREAD_ATTRIBUTE(x) __attribute__((x))
#else
#define HKT_THREAD_ATTRIBUTE(x)
#endif

#define HKT_CAPABILITY(name) HKT_THREAD_ATTRIBUTE(capability(name))
#define HKT_SCOPED_CAPABILITY HKT_THREAD_ATTRIBUTE(scoped_lockable)
#define HKT_GUARDED_BY(mutex) HKT_THREAD_ATTRIBUTE(guarded_by(mutex))        // the member is touched with the lock held
#define HKT_PT_GUARDED_BY(mutex) HKT_THREAD_ATTRIBUTE(pt_guarded_by(mutex))  // what the member points to is
#define HKT_REQUIRES(...) HKT_THREAD_ATTRIBUTE(requires_capability(__VA_ARGS__))
#define HKT_EXCLUDES(...) HKT_THREAD_ATTRIBUTE(locks_excluded(__VA_ARGS__))
#define HKT_ACQUIRE(...) HKT_THREAD_ATTRIBUTE(acquire_capability(__VA_ARGS__))
#define HKT_TRY_ACQUIRE(...) HKT_THREAD_ATTRIBUTE(try_acquire_capability(__VA_ARGS__))
#define HKT_RELEASE(...) HKT_THREAD_ATTRIBUTE(release_capability(__VA_ARGS__))

namespace hocket {

// A std::mutex that clang knows. BasicLockable, so std::condition_variable_any waits on it.
class HKT_CAPABILITY("mutex") Mutex {
 public:
  void lock() HKT_ACQUIRE() { mutex_.lock(); }
  void unlock() HKT_RELEASE() { mutex_.unlock(); }
  bool try_lock() HKT_TRY_ACQUIRE(true) { return mutex_.try_lock(); }

 private:
  std::mutex mutex_;
};

class HKT_SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) HKT_ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  ~MutexLock() HKT_RELEASE() { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

}  // namespace hocket
