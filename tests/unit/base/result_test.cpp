#include "base/result.h"

#include <catch2/catch_test_macros.hpp>
#include <memory>
#include <string>
#include <type_traits>

using namespace base;

namespace {

Result<std::string> greet(bool well) {
  if (!well) return Error{ExitCode::source, "nobody is there", "come again"};
  return std::string("hello");
}

}  // namespace

TEST_CASE("a result holds a value") {
  const auto result = greet(true);
  REQUIRE(result);
  CHECK(result.has_value());
  CHECK(*result == "hello");
  CHECK(result->size() == 5);
}

TEST_CASE("or it holds an error, local unless it says otherwise") {
  const auto result = greet(false);
  REQUIRE_FALSE(result);
  CHECK(result.error().code == ExitCode::source);
  CHECK(result.error().what == "nobody is there");
  CHECK(result.error().cure == "come again");
  CHECK(result.error().blame == Blame::local);
  CHECK(result.error().os_error == 0);
}

TEST_CASE("an error that nobody filled in is a bug, not a success") { CHECK(Error{}.code == ExitCode::bug); }

TEST_CASE("a value that cannot be copied can be taken out") {
  Result<std::unique_ptr<int>> result(std::make_unique<int>(7));
  const std::unique_ptr<int> taken = *std::move(result);
  CHECK(*taken == 7);
}

TEST_CASE("a result is no bool by accident") {
  static_assert(!std::is_convertible_v<Result<int>, bool>);
  SUCCEED();
}

TEST_CASE("ok is a status that succeeded") { CHECK(ok()); }
