// What a run did, as data: told to people by the runner while it happens, and to machines by --json at the
// end. The JSON form is an interface (docs/json.md): only ever extended.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "base/exit_code.h"
#include "base/result.h"

namespace flow {

struct StepRecord {
  enum class Outcome { done, failed, would };
  std::string name;
  Outcome outcome = Outcome::done;
  std::string detail;
  std::chrono::milliseconds took{0};
};

struct Report {
  std::string command;
  std::string job;  // empty where there is none
  bool dry_run = false;
  std::vector<StepRecord> steps;
  std::vector<std::string> warnings;
  std::string summary;  // why the run ended as it did: "skipped: ...", "domain of 18 nodes is up"
  std::optional<base::Error> error;
  std::vector<std::string> planned;  // dry run: what would be changed, in order
  int exit_code = 0;
};

// One line, cause and cure joined: "cannot write /etc/x: No space left on device; free some space in /etc".
std::string one_line(const base::Error& error);

std::string to_json(const Report& report);

}  // namespace flow
