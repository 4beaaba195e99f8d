#include "commands/imex_times.h"

#include <algorithm>

#include "base/duration.h"

namespace commands {

namespace {

using namespace std::chrono_literals;

TimeLimit least_of(const std::optional<site::milliseconds>& asked, site::milliseconds own,
                   const std::optional<site::milliseconds>& slurms, const std::string& setting) {
  if (asked) return {*asked, "--deadline"};
  if (!slurms || *slurms - site::deadline_margin >= own) return {own, "the default"};
  return {std::max<site::milliseconds>(*slurms - site::deadline_margin, 1s),
          setting + " of slurm.conf (" + base::show_duration(*slurms) + ") less " +
              base::show_duration(site::deadline_margin)};
}

}  // namespace

TimeLimit prolog_time(const std::optional<site::milliseconds>& asked, const std::optional<slurm::Conf>& conf) {
  return least_of(asked, site::deadline, conf ? slurm::prolog_limit(*conf) : std::nullopt, "PrologTimeout");
}

TimeLimit epilog_time(const std::optional<site::milliseconds>& asked, const std::optional<slurm::Conf>& conf) {
  return least_of(asked, site::epilog_deadline, conf ? slurm::epilog_limit(*conf) : std::nullopt, "EpilogTimeout");
}

std::optional<TimeLimit> nohold_time(const std::optional<slurm::Conf>& conf) {
  if (!conf || !slurm::has_prolog_flag(*conf, "NoHold")) return std::nullopt;
  const auto message = slurm::message_timeout(*conf);
  const auto batch = slurm::batch_start_timeout(*conf);
  return TimeLimit{std::max<site::milliseconds>(message + batch - site::nohold_margin, 1s),
                   "PrologFlags=NoHold with MessageTimeout " + base::show_duration(message) +
                       " and BatchStartTimeout " + base::show_duration(batch)};
}

}  // namespace commands
