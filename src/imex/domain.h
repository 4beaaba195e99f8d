// The whole domain: is every node of the list READY and every pair connected?
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "host/clock.h"
#include "host/log.h"
#include "imex/ctl.h"
#include "imex/status.h"

namespace imex {

// What one look at the domain means for this node. Pure.
struct Verdict {
  bool up = false;
  bool other_list = false;                // the daemon shows other nodes than our list
  std::vector<std::size_t> not_ready;     // node ids
  std::vector<std::size_t> own_mismatch;  // peers our own daemon has blocked (!M!)
  std::vector<std::pair<std::size_t, std::size_t>>
      unconnected;   // ordered pairs; those of dead nodes only where we refuse
  std::string told;  // one line: who is missing or unconnected, by node name
};

// `nodes`: the names, `addresses`: the list, both in list order; `own`: our place in it.
Verdict judge(const DomainView& view, const std::vector<std::string>& nodes, const std::vector<std::string>& addresses,
              std::size_t own);

struct DomainTask {
  std::vector<std::string> nodes;
  std::vector<std::string> addresses;
  std::size_t own = 0;
  unsigned command_port = 0;
  host::milliseconds settle{0};  // how long UP must hold without change; zero: one look is enough
};

struct DomainOutcome {
  bool up = false;
  bool mismatch = false;  // at the end a pair was blocked by differing lists
  bool versions_differ = false;
  bool ended = false;  // the domain is no longer this job's: its epilog has run
  int restarts = 0;    // of our own daemon, to cure mismatches
  std::string told;
};

std::string describe(const DomainOutcome& outcome);

struct Released {
  std::vector<std::string> asked_long;  // peers that held another list when we first asked, by name
  std::vector<std::string> still_held;  // and that still did at the end
};

std::string describe(const Released& released);

// Before our own start: waits while a peer's daemon still holds another list than ours (its prolog has yet to
// restart it), since a difference that is met blocks the pair on both sides. A peer that does not answer holds
// nothing against us. Never an error: at the deadline we go on, and await_domain cures what we meet.
Released await_peers_released(Ctl& ctl, host::Clock& clock, host::Log& log, const DomainTask& task,
                              const host::Deadline& deadline);

struct DomainHands {
  // Restarts our own daemon with the same list. False: not begun, for what is left would not do (the log tells), and
  // not asked again; an error ends the wait.
  std::function<base::Result<bool>()> restart;
  // Asked before every look: false when the job's epilog has ended the domain; an error when the daemon died.
  std::function<base::Result<bool>()> still_ours;
};

// Looks until UP has held for `settle`, or the deadline comes (which is no error here: the outcome tells). A domain
// that is UP at the deadline may still settle until `last`. A mismatch that our own daemon holds against a peer is
// cured by a restart: only before the first UP that is seen (it need not have settled: another node may have gone on
// with it), only once that peer has gone and come back or its daemon says that it holds our list, at most twice,
// jittered by our place in the list.
base::Result<DomainOutcome> await_domain(Ctl& ctl, host::Clock& clock, host::Log& log, const DomainTask& task,
                                         const DomainHands& hands, const host::Deadline& deadline,
                                         const host::Deadline& last);

}  // namespace imex
