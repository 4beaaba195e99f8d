#include "imex/state.h"

#include <cerrno>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "base/text.h"
#include "host/trusted_file.h"
#include "site/site.h"

namespace imex {

using base::Error;
using base::ExitCode;
using Json = nlohmann::json;

namespace {

// A state has a few hundred bytes, one of an 18-node domain with IPv6 addresses about a thousand.
constexpr std::size_t largest_state = 64U << 10U;
constexpr std::size_t deepest_state = 4;

bool agree(const std::string& a, const std::string& b) { return a.empty() || b.empty() || a == b; }

Error damaged(const std::string& why) {
  return Error{ExitCode::surroundings, "the state file " + std::string(site::imex_state) + " is damaged: " + why,
               "it is rewritten by the next run"};
}

// 0 where there is none. nlohmann would turn 1.5, -1 and 5000000000 into some pid, and that one may be anybody's.
std::uint64_t number(const Json& json, const char* key, std::uint64_t most) {
  const auto found = json.find(key);
  if (found == json.end()) return 0;
  if (!found->is_number_unsigned() || found->get<std::uint64_t>() > most)
    throw std::out_of_range(std::string(key) + " is no number that it can be");
  return found->get<std::uint64_t>();
}

// Below --root the whole tree may be a person's own, kept from a node; then /run is theirs too.
bool is_roots(const host::Files& files) {
  const auto status = files.status("/run");
  return !status || !*status || (*status)->uid == 0;
}

// It becomes a word of systemctl's, so it must be no option and no pattern.
bool is_unit_name(const std::string& text) {
  return !text.empty() && text.size() <= 256 && text.front() != '-' &&
         text.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789:-_.\\@") ==
             std::string::npos;
}

pid_t pid(const Json& json, const char* key) {
  return static_cast<pid_t>(number(json, key, std::numeric_limits<pid_t>::max()));
}

}  // namespace

bool same_run(const RunIdentity& a, const RunIdentity& b) {
  return a.job_id == b.job_id && agree(a.sluid, b.sluid) && agree(a.restart_count, b.restart_count) &&
         agree(a.start_time, b.start_time);
}

bool is_epilog_of(const RunIdentity& prolog, const RunIdentity& epilog) {
  if (same_run(prolog, epilog)) return true;
  const auto told = base::parse_number(prolog.restart_count);
  const auto counted = base::parse_number(epilog.restart_count);
  const bool dated = !prolog.start_time.empty() && prolog.start_time == epilog.start_time;
  const bool named = !prolog.sluid.empty() && prolog.sluid == epilog.sluid;
  if (!told || !counted || *counted != *told + 1 || !(dated || named)) return false;
  RunIdentity uncounted = epilog;
  uncounted.restart_count = prolog.restart_count;
  return same_run(prolog, uncounted);
}

std::string_view show(Phase phase) {
  switch (phase) {
    case Phase::changing: return "changing";
    case Phase::started: return "started";
    case Phase::stopped: return "stopped";
  }
  return "";
}

std::string render_state(const State& state) {
  const Json json = {{"schema", 1},
                     {"job_id", state.run.job_id},
                     {"sluid", state.run.sluid},
                     {"restart_count", state.run.restart_count},
                     {"start_time", state.run.start_time},
                     {"phase", show(state.phase)},
                     {"boot_id", state.boot_id},
                     {"unit", state.unit},
                     {"nodes_config", state.nodes_config},
                     {"addresses", state.addresses},
                     {"main_pid", state.main_pid},
                     {"main_start_time", state.main_start_time},
                     {"prolog_pid", state.prolog_pid}};
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

base::Result<State> parse_state(std::string_view text) {
  if (base::nests_deeper_than(text, deepest_state)) return damaged("it is nested deeper than any state");
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) return damaged("it is no JSON object");
  State state;
  try {
    state.run.job_id = json.at("job_id").get<std::string>();
    state.run.sluid = json.value("sluid", "");
    state.run.restart_count = json.value("restart_count", "");
    state.run.start_time = json.value("start_time", "");
    state.boot_id = json.value("boot_id", "");
    state.unit = json.at("unit").get<std::string>();
    if (!is_unit_name(state.unit)) return damaged("'" + base::printable(state.unit, 60) + "' is no unit's name");
    state.nodes_config = json.at("nodes_config").get<std::string>();
    state.addresses = json.value("addresses", std::vector<std::string>{});
    state.main_pid = pid(json, "main_pid");
    state.main_start_time = number(json, "main_start_time", std::numeric_limits<std::uint64_t>::max());
    state.prolog_pid = pid(json, "prolog_pid");
    const std::string phase = json.at("phase").get<std::string>();
    if (phase == show(Phase::changing)) {
      state.phase = Phase::changing;
    } else if (phase == show(Phase::started)) {
      state.phase = Phase::started;
    } else if (phase == show(Phase::stopped)) {
      state.phase = Phase::stopped;
    } else {
      return damaged("unknown phase '" + base::printable(phase) + "'");
    }
  } catch (const std::exception& exception) {
    return damaged(exception.what());
  }
  return state;
}

std::optional<State> read_state(const host::Files& files, std::string& damage) {
  const std::string path(site::imex_state);
  if (const std::string fault = host::file_fault(files, path, is_roots(files)); !fault.empty()) {
    damage = damaged(fault).what;
    return std::nullopt;
  }
  const auto text = files.read(path, largest_state);
  if (!text) {
    if (text.error().os_error != ENOENT) damage = damaged(text.error().what).what;
    return std::nullopt;
  }
  auto state = parse_state(*text);
  if (!state) {
    damage = state.error().what;
    return std::nullopt;
  }
  if (state->boot_id != read_boot_id(files)) return std::nullopt;
  return *state;
}

base::Status write_state(host::Files& files, const State& state) {
  const std::string folder(site::run_dir);
  const auto status = files.status(folder);
  if (!status) return Error{ExitCode::change, status.error().what, ""};
  if (!*status) {
    if (auto made = files.make_directory(folder, 0755); !made) {
      return Error{ExitCode::change, made.error().what, "see whether /run is there and writable", base::Blame::local,
                   made.error().os_error};
    }
  }
  if (auto written = files.replace(std::string(site::imex_state), render_state(state), 0644); !written) {
    return Error{ExitCode::change, written.error().what, "see whether /run is writable and has space left",
                 base::Blame::local, written.error().os_error};
  }
  return base::ok();
}

std::string read_boot_id(const host::Files& files) {
  const auto text = files.read(std::string(site::boot_id), 256);
  return text ? std::string(base::trim(*text)) : "";
}

}  // namespace imex
