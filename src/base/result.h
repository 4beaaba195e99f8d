// Result<T>: a value, or an Error that says what failed, on what, why and what to do.
//
// Our own and not std::expected, since g++ 12 has that only in C++23 mode and without [[nodiscard]]: a
// dropped Result must not compile here. Only the part of std::expected's interface that we use, so that
// it can become std::expected later without touching callers. There is no macro for early return: two
// plain lines (`if (!x) return x.error();`) are shown by a debugger and a coverage tool as they are.
#pragma once

#include <string>
#include <utility>
#include <variant>

#include "base/exit_code.h"

namespace base {

// Whose fault an error is. A local one fails this node. A shared one is seen alike by every node of the
// job's block, so that one node alone may fail for it (one drained node, not a drained rack).
enum class Blame { local, shared };

struct Error {
  ExitCode code = ExitCode::bug;
  std::string what;  // what failed, on what, and why: lower case, no full stop
  std::string cure;  // what to do; empty only where there is nothing to do
  Blame blame = Blame::local;
  int os_error = 0;  // errno where a system call failed, else 0
};

struct Unit {};

template <class T>
class [[nodiscard]] Result {
 public:
  // Implicit on purpose: `return value;` and `return error;` both read well.
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  explicit operator bool() const { return state_.index() == 0; }
  bool has_value() const { return state_.index() == 0; }

  T& value() & { return std::get<0>(state_); }
  const T& value() const& { return std::get<0>(state_); }
  T&& value() && { return std::get<0>(std::move(state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::get<0>(std::move(state_)); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  const Error& error() const { return std::get<1>(state_); }
  Error& error() { return std::get<1>(state_); }

 private:
  std::variant<T, Error> state_;
};

using Status = Result<Unit>;
inline Status ok() { return Unit{}; }

}  // namespace base
