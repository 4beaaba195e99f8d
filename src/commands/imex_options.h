// Options of imex-prolog and imex-epilog, with the contract's defaults.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "site/site.h"
#include "slurm/block_source.h"

namespace commands {

// What decides whether this job and this node are ours at all: shared by both commands, and used with these
// very defaults while the config file is broken.
struct ImexGateOptions {
  std::string unit{site::imex_unit};
  std::vector<std::string> instance_types{site::instance_types.begin(), site::instance_types.end()};  // prefixes
  bool unknown_type_fails = false;  // --unknown-type=fail
};

enum class OnFailure { fail, carry_on };       // --on-failure=fail|continue
enum class BlameWho { first, all };            // --blame=first|all: who fails for a fault that all nodes share
enum class WaitDomain { warn, require, off };  // --wait-domain
enum class EpilogMode { stop, keep, self };    // --mode

struct ImexPrologOptions {
  ImexGateOptions gate;
  bool force = false;
  OnFailure on_failure = OnFailure::fail;
  BlameWho blame = BlameWho::first;
  WaitDomain wait_domain = WaitDomain::warn;
  slurm::Scope scope = slurm::Scope::automatic;
  std::optional<site::milliseconds> deadline;  // nullopt: auto
  site::milliseconds stop_timeout = site::stop_limit;
  site::milliseconds start_timeout = site::start_limit;
  site::milliseconds ready_timeout = site::ready_limit;
  site::milliseconds domain_timeout = site::domain_limit;
  site::milliseconds settle = site::settle;
  std::size_t max_domain_nodes = site::max_domain_nodes;
  bool drop_persist = false;
  std::string scontrol;  // path; empty: looked for
};

struct ImexEpilogOptions {
  ImexGateOptions gate;
  bool force = false;
  EpilogMode mode = EpilogMode::stop;
  std::optional<site::milliseconds> deadline;  // nullopt: auto
  site::milliseconds lock_timeout = site::epilog_lock_limit;
  site::milliseconds stop_timeout = site::stop_limit;
};

}  // namespace commands
