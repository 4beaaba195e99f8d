#include "host/real_clock.h"

#include <signal.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <thread>

#include "host/environment.h"
#include "host/interrupt.h"

using namespace std::chrono_literals;

TEST_CASE("a sleep lasts as long as it is told") {
  host::RealClock clock;
  const auto begun = clock.now();
  CHECK(clock.sleep(120ms));
  CHECK(clock.now() - begun >= 120ms);
  CHECK(clock.sleep(0ms));
  CHECK(clock.sleep(-5ms));
}

TEST_CASE("a stop signal ends a sleep and forbids the next one until it is acknowledged") {
  host::catch_stop_signals();
  host::RealClock clock;
  const auto begun = clock.now();
  std::thread later([] {
    std::this_thread::sleep_for(200ms);
    raise(SIGTERM);  // in this thread, so that the wait does not see EINTR
  });
  CHECK_FALSE(clock.sleep(60s));
  CHECK(clock.now() - begun < 30s);
  later.join();
  CHECK_FALSE(clock.sleep(1ms));
  CHECK(host::stopping());
  CHECK_FALSE(host::stopping_at_once());
  raise(SIGHUP);
  CHECK(host::stopping_at_once());
  host::acknowledge_stop_signal();
  CHECK(clock.sleep(1ms));
  CHECK(host::stop_signal() == SIGTERM);
  host::release_stop_signals();
  CHECK(host::stop_signal() == 0);
}

TEST_CASE("a signal that was ignored when we were started stays ignored") {
  signal(SIGHUP, SIG_IGN);
  host::catch_stop_signals();
  raise(SIGHUP);
  CHECK(host::stop_signal() == 0);
  host::release_stop_signals();
  signal(SIGHUP, SIG_DFL);
}

TEST_CASE("the wall clock is the system's") {
  const auto before = std::chrono::system_clock::now();
  const auto told = host::RealClock().wall();
  CHECK(told >= before);
  CHECK(told <= std::chrono::system_clock::now());
}

TEST_CASE("the environment tells not set from empty") {
  setenv("GP_TEST_SET", "a=b", 1);
  setenv("GP_TEST_EMPTY", "", 1);
  unsetenv("GP_TEST_UNSET");
  const host::Environment environment = host::Environment::from_process();
  CHECK(environment.get("GP_TEST_SET") == "a=b");
  CHECK(environment.get("GP_TEST_EMPTY") == "");
  CHECK_FALSE(environment.get("GP_TEST_UNSET").has_value());
  CHECK(environment.get_or("GP_TEST_UNSET", "otherwise") == "otherwise");
  CHECK(environment.get_or("GP_TEST_EMPTY", "otherwise").empty());
  unsetenv("GP_TEST_SET");
  unsetenv("GP_TEST_EMPTY");
}
