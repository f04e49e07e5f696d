// Result<T>: a value or an Error. The function that decides the error writes its text once; callers pass it on
// unchanged.
#pragma once

#include <cstdarg>
#include <memory>
#include <string>
#include <utility>
#include <variant>

#include "hocket/hocket.h"

namespace hocket {

using Code = hktResult_t;

struct Error {
  Code code = hktInternalError;
  std::string text;  // one line: what is wrong, where, what to do
};

// printf-style construction of an error. `errno` is not added: use sys_error for failed system calls.
[[nodiscard]] Error error(Code code, const char* format, ...) __attribute__((format(printf, 2, 3)));
// The same with ": <strerror(errno)>" behind the text, code hktSystemError.
[[nodiscard]] Error sys_error(const char* format, ...) __attribute__((format(printf, 1, 2)));
[[nodiscard]] std::string format(const char* format, ...) __attribute__((format(printf, 1, 2)));

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}                       // NOLINT: implicit by intent
  Result(Error e) : state_(std::make_unique<Error>(std::move(e))) {}  // NOLINT
  explicit operator bool() const { return state_.index() == 0; }
  bool ok() const { return state_.index() == 0; }
  T& value() { return std::get<0>(state_); }
  const T& value() const { return std::get<0>(state_); }
  T& operator*() { return std::get<0>(state_); }
  T* operator->() { return &std::get<0>(state_); }
  Error& error() { return *std::get<1>(state_); }
  const Error& error() const { return *std::get<1>(state_); }

 private:
  std::variant<T, std::unique_ptr<Error>> state_;  // an error is rare: one pointer in the good case
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error e) : error_(std::make_unique<Error>(std::move(e))) {}  // NOLINT
  explicit operator bool() const { return error_ == nullptr; }
  bool ok() const { return error_ == nullptr; }
  Error& error() { return *error_; }
  const Error& error() const { return *error_; }

 private:
  std::unique_ptr<Error> error_;
};

using Status = Result<void>;

// HKT_TRY(expr): return the error of a Status or Result to the caller.
#define HKT_TRY(expr)                                                                                         \
  do {                                                                                                        \
    if (auto hkt_status_ = (expr); !hkt_status_.ok()) return ::hocket::Error(std::move(hkt_status_.error())); \
  } while (0)

#define HKT_CONCAT2(a, b) a##b
#define HKT_CONCAT(a, b) HKT_CONCAT2(a, b)
// HKT_ASSIGN(decl, expr): declare and take the value of a Result, or return its error.
#define HKT_ASSIGN(decl, expr)                                                    \
  auto HKT_CONCAT(hkt_result_, __LINE__) = (expr);                                \
  if (!HKT_CONCAT(hkt_result_, __LINE__).ok())                                    \
    return ::hocket::Error(std::move(HKT_CONCAT(hkt_result_, __LINE__).error())); \
  decl = std::move(HKT_CONCAT(hkt_result_, __LINE__).value())

}  // namespace hocket
