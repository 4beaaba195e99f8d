#include "imex/domain.h"

#include <algorithm>

#include "base/duration.h"
#include "base/ip_literal.h"
#include "base/text.h"
#include "site/site.h"

namespace imex {

namespace {

using namespace std::chrono_literals;

constexpr host::milliseconds peer_limit = 2s;  // a blocked command port must not cost more
constexpr int most_restarts = 2;
constexpr host::milliseconds jitter_step = 120ms;  // times our place in the list

std::string named(const std::vector<std::string>& nodes, const std::vector<std::string>& addresses, std::size_t id) {
  if (id >= addresses.size()) return "node id " + std::to_string(id);
  return (id < nodes.size() ? nodes[id] + " " : "") + "(" + addresses[id] + ")";
}

std::string list_up(const std::vector<std::string>& parts) {
  constexpr std::size_t most = 6;
  std::vector<std::string> first(parts.begin(),
                                 parts.begin() + static_cast<std::ptrdiff_t>(std::min(parts.size(), most)));
  std::string text = base::join(first, ", ");
  if (parts.size() > most) text += " and " + std::to_string(parts.size() - most) + " more";
  return text;
}

bool same_list(const DomainView& view, const std::vector<std::string>& addresses) {
  if (view.nodes.size() != addresses.size()) return false;
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    // A release that prints host names cannot be compared by address.
    const auto shown = base::canonical_address(view.nodes[i].address);
    if (shown && *shown != addresses[i]) return false;
  }
  return true;
}

bool is_ready(const DomainView& view, std::size_t id) { return view.nodes[id].status == "READY"; }

// What we remember of one peer that our daemon has blocked.
struct Blocked {
  bool met = false;
  bool was_gone = false;
};

}  // namespace

Verdict judge(const DomainView& view, const std::vector<std::string>& nodes, const std::vector<std::string>& addresses,
              std::size_t own) {
  Verdict verdict;
  if (!same_list(view, addresses)) {
    verdict.other_list = true;
    verdict.told = "the local daemon shows a domain of " + base::counted(view.nodes.size(), "node") +
                   " that is not this job's list of " + std::to_string(addresses.size());
    return verdict;
  }
  std::vector<std::string> dead;
  std::vector<std::string> pairs;
  for (std::size_t id = 0; id < addresses.size(); ++id) {
    if (is_ready(view, id)) continue;
    verdict.not_ready.push_back(id);
    const std::string& status = view.nodes[id].status;
    dead.push_back(named(nodes, addresses, id) + " is " + (status.empty() ? "silent" : base::printable(status, 40)));
  }
  for (std::size_t from = 0; from < addresses.size(); ++from) {
    for (std::size_t to = 0; to < addresses.size(); ++to) {
      const Link link = view.links[from][to];
      if (from == to || link == Link::connected) continue;
      if (from == own && link == Link::map_mismatch) verdict.own_mismatch.push_back(to);
      // One dead node is one finding, not 34 pairs. But what our own daemon refuses is a cause, not a consequence.
      const bool refused_by_us = from == own && (link == Link::map_mismatch || link == Link::version_mismatch);
      if (!refused_by_us && (!is_ready(view, from) || !is_ready(view, to))) continue;
      verdict.unconnected.emplace_back(from, to);
      pairs.push_back(named(nodes, addresses, from) + " to " + named(nodes, addresses, to) + " " +
                      std::string(show_cell(link)));
    }
  }
  const bool whole = verdict.not_ready.empty() && verdict.unconnected.empty();
  // A release that prints no state leaves it empty; one that says DOWN knows more than its own table.
  verdict.up = whole && (view.state.empty() || view.state == "UP");
  if (whole && !verdict.up) {
    verdict.told =
        "every pair of peers is shown as connected, but the domain state is " + base::printable(view.state, 40);
  } else if (whole) {
    verdict.told = (addresses.size() == 1 ? std::string("the only node is")
                                          : "all " + std::to_string(addresses.size()) + " nodes") +
                   " READY, every pair connected";
  } else {
    verdict.told = list_up(dead);
    if (!pairs.empty()) verdict.told += (dead.empty() ? "" : "; ") + std::string("not connected: ") + list_up(pairs);
  }
  return verdict;
}

std::string describe(const DomainOutcome& outcome) {
  std::string text = outcome.up ? "UP: " + outcome.told : "not up: " + outcome.told;
  if (outcome.restarts > 0)
    text += " (own daemon restarted " +
            (outcome.restarts == 1 ? std::string("once") : std::to_string(outcome.restarts) + " times") +
            " to cure a node map mismatch)";
  return text;
}

std::string describe(const Released& released) {
  if (released.asked_long.empty()) return "no peer's daemon holds another list";
  if (released.still_held.empty()) return "waited for the old daemons of " + list_up(released.asked_long);
  return "still another list on " + list_up(released.still_held) + "; going on";
}

Released await_peers_released(Ctl& ctl, host::Clock& clock, host::Log& log, const DomainTask& task,
                              const host::Deadline& deadline) {
  Released released;
  std::vector<std::size_t> asked;
  for (std::size_t id = 0; id < task.addresses.size(); ++id) {
    if (id != task.own) asked.push_back(id);
  }
  host::milliseconds pause = 200ms;
  for (bool first = true; !asked.empty() && !deadline.over(); first = false) {
    std::vector<std::string> addresses;
    for (const std::size_t id : asked) addresses.push_back(task.addresses[id]);
    const auto views =
        ctl.peer_domains(addresses, task.command_port, std::max(deadline.limit(peer_limit), host::milliseconds(100)));
    std::vector<std::size_t> holding;
    for (std::size_t i = 0; i < asked.size(); ++i) {
      if (views[i] && !same_list(*views[i], task.addresses)) holding.push_back(asked[i]);
    }
    released.still_held.clear();
    for (const std::size_t id : holding) released.still_held.push_back(named(task.nodes, task.addresses, id));
    if (first && !holding.empty()) {
      released.asked_long = released.still_held;
      log.info("waiting until the daemons of another list are gone: " + list_up(released.still_held));
    }
    asked = holding;
    if (asked.empty() || !clock.sleep(deadline.limit(pause))) break;
    pause = std::min(pause * 2, host::milliseconds(1000));
  }
  if (!released.still_held.empty()) {
    log.warn("another list is still held by " + list_up(released.still_held) +
             "; starting all the same, a mismatch is cured once they restart");
  }
  return released;
}

base::Result<DomainOutcome> await_domain(Ctl& ctl, host::Clock& clock, host::Log& log, const DomainTask& task,
                                         const DomainHands& hands, const host::Deadline& deadline,
                                         const host::Deadline& last) {
  DomainOutcome outcome;
  std::vector<Blocked> blocked(task.addresses.size());
  host::milliseconds pause = 100ms;
  bool holding = false;
  bool seen_up = false;
  bool may_restart = true;
  auto up_since = clock.now();
  const auto begin = clock.now();
  auto next_told = begin + 10s;
  const host::milliseconds whole = deadline.left();
  const auto ended = [&](const base::Result<bool>& ours) -> base::Result<DomainOutcome> {
    if (!ours) return ours.error();
    outcome.ended = true;
    outcome.told = "the job's epilog has ended the domain";
    return outcome;
  };
  for (;;) {
    if (const auto ours = hands.still_ours(); !ours || !*ours) return ended(ours);
    const host::Deadline& until = holding ? last : deadline;
    const auto view = ctl.domain(std::max(until.limit(site::imex_ctl_limit), host::milliseconds(100)));
    if (!view) {
      outcome.told = view.error().what;
      holding = false;
    } else {
      const Verdict verdict = judge(*view, task.nodes, task.addresses, task.own);
      outcome.told = verdict.told;
      outcome.mismatch = !verdict.own_mismatch.empty();
      outcome.versions_differ = false;
      for (const auto& [from, to] : verdict.unconnected) {
        outcome.mismatch |= view->links[from][to] == Link::map_mismatch;
        outcome.versions_differ |= view->links[from][to] == Link::version_mismatch;
      }
      if (verdict.up) {
        if (!holding) up_since = clock.now();
        holding = true;
        seen_up = true;
        if (clock.now() - up_since >= task.settle) {
          outcome.up = true;
          return outcome;
        }
      } else {
        holding = false;
      }
      // A restart before the last blocked peer has its new list would only meet the others' old lists again.
      std::size_t still_old = 0;
      std::size_t cured_by_restart = 0;
      for (std::size_t peer = 0; !verdict.other_list && peer < blocked.size(); ++peer) {
        Blocked& memory = blocked[peer];
        const bool is_blocked =
            std::find(verdict.own_mismatch.begin(), verdict.own_mismatch.end(), peer) != verdict.own_mismatch.end();
        if (is_blocked && !memory.met) {
          memory.met = true;
          log.warn("node map mismatch (!M!) with " + named(task.nodes, task.addresses, peer) +
                   (seen_up ? ": it has taken another list after the domain was UP, which a restart here would not cure"
                            : ": it still held another list when we met it"));
        }
        if (!memory.met) continue;
        if (!is_ready(*view, peer)) memory.was_gone = true;
        // Where every pair was connected once, another node may have let its job begin: we do not break what it uses.
        if (seen_up || !may_restart || !is_blocked || outcome.restarts >= most_restarts) continue;
        bool came_back = memory.was_gone && is_ready(*view, peer);
        if (!came_back && is_ready(*view, peer)) {
          const auto its_view = ctl.peer_domains({task.addresses[peer]}, task.command_port,
                                                 std::max(deadline.limit(peer_limit), host::milliseconds(100)));
          came_back = its_view.front() && same_list(*its_view.front(), task.addresses);
        }
        ++(came_back ? cured_by_restart : still_old);
      }
      const bool time_is_short = deadline.left() < whole / 3;
      if (cured_by_restart > 0 && (still_old == 0 || time_is_short) && !deadline.over()) {
        const host::milliseconds jitter = jitter_step * static_cast<int>(task.own);
        if (!clock.sleep(deadline.limit(jitter))) break;
        if (const auto ours = hands.still_ours(); !ours || !*ours) return ended(ours);
        const auto restarted = hands.restart();
        if (!restarted) return restarted.error();
        may_restart = *restarted;
        if (!may_restart) continue;
        ++outcome.restarts;
        blocked.assign(blocked.size(), Blocked{});
        pause = 100ms;
        continue;
      }
    }
    const host::Deadline& end = holding ? last : deadline;
    if (end.over()) break;
    if (!clock.sleep(end.limit(holding ? std::min(pause, host::milliseconds(250)) : pause))) break;
    pause = std::min(pause * 2, host::milliseconds(1000));
    if (clock.now() >= next_told) {
      const auto waited = std::chrono::duration_cast<host::milliseconds>(clock.now() - begin);
      log.info("waiting for the domain since " + base::show_duration(waited) + ": " + outcome.told);
      next_told = clock.now() + 10s;
    }
  }
  if (holding) {
    const auto held = std::chrono::duration_cast<host::milliseconds>(clock.now() - up_since);
    outcome.told += ", but only for " + base::show_duration(held) + " so far; it has to hold for " +
                    base::show_duration(task.settle);
  }
  return outcome;
}

}  // namespace imex
