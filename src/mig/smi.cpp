#include "mig/smi.h"

#include <algorithm>
#include <map>

#include "base/duration.h"
#include "base/text.h"
#include "site/site.h"

namespace mig {

using base::Error;
using base::ExitCode;

namespace {

Error not_started(const Smi::Call& call) {
  return {ExitCode::time_out, call.shown + ": not started: " + call.not_started,
          "give more time with --deadline, and see what took it (the times of the steps are in the log)"};
}

Error unanswered(const Smi::Call& call) {
  if (!call.not_started.empty()) return not_started(call);
  return as_error(call.answer, call.shown, call.exit, Purpose::question);
}

Error undone(const Smi::Call& call) {
  if (!call.not_started.empty()) return not_started(call);
  return as_error(call.answer, call.shown, call.exit, Purpose::change);
}

}  // namespace

Smi::Call Smi::call(const std::vector<std::string>& arguments, host::milliseconds limit) {
  Call call;
  host::Command command;
  command.program = tool_;
  command.arguments = arguments;
  command.limit = deadline_.limit(limit);
  call.shown = "nvidia-smi " + base::join(arguments, " ");
  if (command.limit <= host::milliseconds::zero()) {
    call.exit.ending = host::Exit::Ending::timed_out;
    call.answer = Answer::timed_out;
    call.not_started = "no time is left";
    return call;
  }
  call.exit = processes_.run(command);
  call.answer = judge(call.exit);
  return call;
}

Smi::Gpus Smi::gpus(host::milliseconds limit) {
  Gpus result;
  const Call asked = call({"--query-gpu=" + std::string(gpu_query), "--format=csv,noheader"}, limit);
  result.answer = asked.answer;
  result.unkillable = asked.exit.unkillable;
  if (asked.answer != Answer::ok) {
    result.error = unanswered(asked);
    return result;
  }
  auto parsed = parse_gpus(asked.exit.out);
  if (!parsed) {
    result.answer = Answer::failed;
    result.error = parsed.error();
  } else if (parsed->empty()) {
    // Exit 0 and not one row: the driver answers before it has found its GPUs.
    result.answer = Answer::not_ready;
    result.error = as_error(Answer::not_ready, asked.shown, asked.exit, Purpose::question);
    result.error.what += ", but no GPU is listed";
  } else {
    result.gpus = std::move(*parsed);
  }
  return result;
}

base::Result<Boards> Smi::boards() {
  const Call profiles = call({"mig", "-lgip"}, site::smi_query_limit);
  if (profiles.answer != Answer::ok) return unanswered(profiles);
  auto boards = parse_profiles(profiles.exit.out);
  if (!boards) return boards.error();
  const Call placements = call({"mig", "-lgipp"}, site::smi_query_limit);
  if (placements.answer != Answer::ok) return unanswered(placements);
  return add_placements(std::move(*boards), placements.exit.out);
}

base::Result<std::vector<GpuInstance>> Smi::gpu_instances() {
  const Call asked = call({"mig", "-lgi"}, site::smi_query_limit);
  if (asked.answer == Answer::none) return std::vector<GpuInstance>{};
  if (asked.answer != Answer::ok) return unanswered(asked);
  return parse_gpu_instances(asked.exit.out);
}

base::Result<std::vector<ComputeInstance>> Smi::compute_instances() {
  const Call asked = call({"mig", "-lci"}, site::smi_query_limit);
  if (asked.answer == Answer::none) return std::vector<ComputeInstance>{};
  if (asked.answer != Answer::ok) return unanswered(asked);
  return parse_compute_instances(asked.exit.out);
}

base::Result<Seen> Smi::seen() {
  Seen seen;
  auto gpu_side = gpu_instances();
  if (!gpu_side) return gpu_side.error();
  seen.gpu_instances = std::move(*gpu_side);
  if (seen.gpu_instances.empty()) return seen;
  auto compute_side = compute_instances();
  if (!compute_side) return compute_side.error();
  seen.compute_instances = std::move(*compute_side);
  return seen;
}

base::Result<std::vector<MigDevice>> Smi::devices() {
  const Call asked = call({"-L"}, site::smi_query_limit);
  if (asked.answer != Answer::ok) return unanswered(asked);
  return parse_devices(asked.exit.out);
}

base::Result<std::vector<ComputeApp>> Smi::compute_apps() {
  const Call asked =
      call({"--query-compute-apps=pid,gpu_uuid,process_name", "--format=csv,noheader"}, site::smi_query_limit);
  if (asked.answer != Answer::ok) return unanswered(asked);
  return parse_compute_apps(asked.exit.out);
}

// --------------------------------------------------------------------------------------------------- changes

namespace {

// After a change, an answer that is not to be had leaves the change without its proof. A time-out and a missing
// permission stay what they are.
Error unproved(Error error) {
  if (error.code != ExitCode::source) return error;
  error.code = ExitCode::change;
  error.what = "what the change made of the GPUs cannot be read back: " + error.what;
  return error;
}

}  // namespace

Smi::Call RealMigChanges::change(const std::vector<std::string>& arguments, host::milliseconds limit) {
  const host::Deadline mine = smi_.deadline().less(reserve_);
  if (mine.left() < least_) {
    Smi::Call none;
    none.answer = Answer::timed_out;
    none.exit.ending = host::Exit::Ending::timed_out;
    none.shown = "nvidia-smi " + base::join(arguments, " ");
    none.not_started = "of the deadline " + base::show_duration(mine.left()) + " is left for changes, and " +
                       base::show_duration(least_) + " is the least for one";
    log_.warn(none.shown + ": not started, " + none.not_started);
    return none;
  }
  Smi::Call call = smi_.call(arguments, mine.limit(limit));
  log_.info(call.shown + ": " + host::describe(call.exit));
  return call;
}

// A changing call that met its limit: the driver may hang in it, so nothing more is changed; one query tells what is.
Error RealMigChanges::hung(const Smi::Call& call) {
  Error error = undone(call);
  const Smi::Gpus now = smi_.gpus(std::max<host::milliseconds>(smi_.deadline().left(), std::chrono::seconds(1)));
  if (now.answer == Answer::ok) {
    std::vector<std::string> modes;
    for (const Gpu& gpu : now.gpus) modes.push_back(gpu.show() + " " + gpu.mode_words);
    error.what += "; MIG modes (current, pending) now: " + base::join(modes, "; ");
  } else {
    error.what += "; a query after it got no answer either";
  }
  return error;
}

base::Result<std::string> RealMigChanges::load_driver(host::milliseconds limit) {
  if (modprobe_.empty()) return std::string();
  host::Command command;
  command.program = modprobe_;
  command.arguments = {"nvidia"};
  command.limit = std::min(smi_.deadline().limit(site::modprobe_limit), limit);
  const host::Exit exit = processes_.run(command);
  if (exit.succeeded()) return std::string();
  const std::string what = "modprobe nvidia: " + host::describe(exit);
  if (base::contains_ignoring_case(exit.err, "not found in directory")) {
    return Error{ExitCode::surroundings, what,
                 "install the NVIDIA driver for this kernel (DKMS may still have to build it)"};
  }
  log_.warn(what);
  return what;
}

base::Result<ModeChange> RealMigChanges::set_mode(const std::vector<Gpu>& gpus, bool on) {
  std::vector<std::string> ids;
  for (const Gpu& gpu : gpus) ids.push_back(gpu.bus_id);
  const auto limit = site::mig_mode_limit + static_cast<int>(gpus.size()) * site::mig_mode_limit_per_gpu;
  // "All done." is printed for success, for pending and for unsupported GPUs alike, so only the query decides. A mode
  // that simply did not take (seen without persistence mode) is asked for once more.
  for (int tries = 1;; ++tries) {
    const Smi::Call call = change({"-i", base::join(ids, ","), "-mig", on ? "1" : "0"}, limit);
    if (call.answer == Answer::timed_out) return hung(call);
    if (call.answer == Answer::stopped || call.answer == Answer::no_permission) return undone(call);
    Smi::Gpus now = smi_.gpus(site::smi_query_limit);
    if (now.answer == Answer::not_ready) now.error.code = ExitCode::source;  // the GPUs were there before the change
    if (now.answer != Answer::ok) return unproved(now.error);
    ModeChange result{std::move(now.gpus), base::printable(base::trim(call.exit.out + call.exit.err), 2000), true};
    bool ignored = false;
    for (const Gpu& asked : gpus) {
      const Gpu* after = find_by_bus(result.gpus, asked.bus_id);
      if (after == nullptr) {
        return Error{ExitCode::change, asked.show() + " is gone after the change of its MIG mode: " + result.said,
                     "look at `dmesg` for NVRM or Xid lines, and replace the node"};
      }
      if (after->pending != (on ? Mode::enabled : Mode::disabled)) ignored = true;
    }
    if (call.answer != Answer::ok && ignored) return undone(call);
    if (!ignored || tries == 2 || base::contains_ignoring_case(result.said, "Not Supported")) return result;
    log_.warn("the MIG mode did not take although the call said nothing of it: once more");
  }
}

base::Status RealMigChanges::destroy(const std::vector<std::string>& arguments) {
  // A monitor may hold an instance for a moment (DCGM), so "in use" is tried three times.
  for (int tries = 1;; ++tries) {
    const Smi::Call call = change(arguments, site::mig_mode_limit);
    if (call.answer == Answer::ok || call.answer == Answer::none) return base::ok();
    if (call.answer == Answer::timed_out) return hung(call);
    if (call.answer != Answer::in_use || tries == 3) return undone(call);
    if (!clock_.sleep(std::chrono::seconds(1)))
      return as_error(Answer::stopped, call.shown, call.exit, Purpose::change);
  }
}

base::Status RealMigChanges::clear(const Gpu& gpu) {
  if (auto gone = destroy({"mig", "-i", gpu.bus_id, "-dci"}); !gone) return gone;
  if (auto gone = destroy({"mig", "-i", gpu.bus_id, "-dgi"}); !gone) return gone;
  const Smi::Call left = smi_.call({"mig", "-i", gpu.bus_id, "-lgi"}, site::smi_query_limit);
  if (left.answer == Answer::none) return base::ok();
  if (left.answer == Answer::timed_out) return hung(left);
  if (left.answer != Answer::ok) return undone(left);
  return Error{
      ExitCode::change,
      gpu.show() + " still has instances after they were destroyed: " + base::printable(base::trim(left.exit.out), 300),
      "look at `nvidia-smi mig -lgi`"};
}

namespace {

std::string bus_ids(const std::vector<const GpuPlan*>& plans) {
  std::vector<std::string> ids;
  for (const GpuPlan* plan : plans) ids.push_back(plan->gpu.bus_id);
  return base::join(ids, ",");
}

bool has_change(const GpuPlan& plan) {
  return !plan.switch_off && (plan.build || plan.clear || !plan.without_ci.empty());
}

// The GPUs whose instances are to be changed, those together that one call can serve: empty ones that get the same
// places.
std::vector<std::vector<const GpuPlan*>> calls_for(const std::vector<GpuPlan>& plans) {
  std::vector<std::vector<const GpuPlan*>> calls;
  std::map<std::string, std::size_t> by_places;
  for (const GpuPlan& plan : plans) {
    if (!has_change(plan)) continue;
    if (plan.build && !plan.clear) {
      const auto [at, is_new] = by_places.try_emplace(cgi_argument(plan.placements), calls.size());
      if (!is_new) {
        calls[at->second].push_back(&plan);
        continue;
      }
    }
    calls.push_back({&plan});
  }
  return calls;
}

}  // namespace

// One GPU, or several that get the same places.
base::Status RealMigChanges::create(const std::vector<const GpuPlan*>& alike) {
  const GpuPlan& plan = *alike.front();
  std::vector<std::string> arguments{"mig", "-i", bus_ids(alike)};
  if (plan.build) {
    arguments.insert(arguments.end(), {"-cgi", cgi_argument(plan.placements), "-C"});
  } else if (!plan.without_ci.empty()) {
    std::vector<std::string> ids;
    for (unsigned id : plan.without_ci) ids.push_back(std::to_string(id));
    arguments.insert(arguments.end(), {"-gi", base::join(ids, ","), "-cci"});
  } else {
    return base::ok();
  }
  const auto limit = site::mig_mode_limit + static_cast<int>(alike.size() - 1) * site::mig_mode_limit_per_gpu;
  const Smi::Call call = change(arguments, limit);
  if (call.answer == Answer::timed_out) return hung(call);
  // Nothing to find is no success of a creation.
  if (call.answer == Answer::none) return as_error(Answer::failed, call.shown, call.exit, Purpose::change);
  if (call.answer != Answer::ok) return undone(call);
  return base::ok();
}

base::Result<ReadBack> RealMigChanges::read_back() {
  auto instances = smi_.gpu_instances();
  if (!instances) return unproved(instances.error());
  auto devices = smi_.devices();
  if (!devices) return unproved(devices.error());
  return ReadBack{std::move(*instances), std::move(*devices)};
}

namespace {

// A hung call or a stop signal: nothing more may be changed.
bool ends_the_run(const Error& error) { return error.code == ExitCode::time_out; }

void drop(std::vector<GpuInstance>& instances, unsigned gpu) {
  std::erase_if(instances, [&](const GpuInstance& instance) { return instance.gpu == gpu; });
}

// Every GPU instance shows as a MIG device of its own name: it holds one compute instance of full size.
bool whole(unsigned gpu, const std::vector<GpuInstance>& instances, const std::vector<MigDevice>& devices) {
  std::vector<std::string> should;
  std::vector<std::string> is;
  for (const GpuInstance& instance : instances) {
    if (instance.gpu == gpu) should.push_back(base::lower(instance.profile));
  }
  for (const MigDevice& device : devices) {
    if (device.gpu == gpu) is.push_back(base::lower(device.name));
  }
  std::sort(should.begin(), should.end());
  std::sort(is.begin(), is.end());
  return should == is;
}

std::vector<ComputeInstance> one_in_each(const std::vector<GpuInstance>& instances) {
  std::vector<ComputeInstance> inside;
  for (const GpuInstance& instance : instances) inside.push_back({instance.gpu, instance.id, instance.profile, 0});
  return inside;
}

}  // namespace

base::Result<Built> RealMigChanges::build(const std::vector<GpuPlan>& plans) {
  Built built;
  for (const GpuPlan& plan : plans) {
    if (has_change(plan)) built.outcomes.push_back({plan.gpu.bus_id, false, "", base::ExitCode::change, "", false});
  }
  const auto outcome_of = [&](const GpuPlan& plan) -> GpuOutcome& {
    return *std::find_if(built.outcomes.begin(), built.outcomes.end(),
                         [&](const GpuOutcome& outcome) { return outcome.bus_id == plan.gpu.bus_id; });
  };
  // A creation is not all or nothing: what came before the failing item stays, so the GPU is emptied.
  const auto roll_back = [&](const GpuPlan& plan) -> base::Status {
    GpuOutcome& outcome = outcome_of(plan);
    outcome.done = false;
    auto cleared = clear(plan.gpu);
    if (!cleared && ends_the_run(cleared.error())) return cleared;
    outcome.emptied = cleared.has_value();
    outcome.error += cleared ? "; rolled back, the GPU is empty and MIG mode is on"
                             : "; rolling back failed too, instances are left: " + cleared.error().what;
    return base::ok();
  };
  // Error: nothing more may be changed. Else the outcome says how it went.
  const auto build_alone = [&](const GpuPlan& plan, bool clear_first) -> base::Status {
    GpuOutcome& outcome = outcome_of(plan);
    if (auto cleared = clear_first ? clear(plan.gpu) : base::ok(); !cleared) {
      if (ends_the_run(cleared.error())) return cleared;
      outcome.code = cleared.error().code;
      outcome.cure = cleared.error().cure;
      outcome.error = "its old instances could not be destroyed, nothing was created: " + cleared.error().what;
    } else if (auto made = create({&plan}); !made) {
      if (ends_the_run(made.error())) return made;
      outcome.code = made.error().code;
      outcome.cure = made.error().cure;
      outcome.error = made.error().what;
      return roll_back(plan);
    } else {
      outcome.done = true;
    }
    return base::ok();
  };

  std::vector<const GpuPlan*> together;
  std::vector<const GpuPlan*> alone;
  for (const auto& alike : calls_for(plans)) {
    if (alike.size() == 1) {
      if (auto went = build_alone(*alike.front(), alike.front()->clear); !went) return went.error();
      alone.push_back(alike.front());
    } else {
      // Whether it failed on its first GPU or its last is not to be had from its words: reading back tells.
      if (auto made = create(alike); !made && ends_the_run(made.error())) return made.error();
      together.insert(together.end(), alike.begin(), alike.end());
    }
  }

  for (;;) {
    const auto seen = read_back();
    if (!seen) return seen.error();
    built.gpu_instances = seen->gpu_instances;
    std::optional<std::vector<ComputeInstance>> compute_side;
    const auto judge_gpu = [&](const GpuPlan& plan) -> base::Result<Standing> {
      std::vector<ComputeInstance> inside = one_in_each(seen->gpu_instances);
      if (!whole(plan.gpu.index, seen->gpu_instances, seen->devices)) {
        if (!compute_side) {
          auto asked = smi_.compute_instances();
          if (!asked) return unproved(asked.error());
          compute_side = std::move(*asked);
        }
        inside = *compute_side;
      }
      return compare(plan.wanted, seen->gpu_instances, inside, plan.gpu.index);
    };
    for (const GpuPlan* plan : alone) {
      GpuOutcome& outcome = outcome_of(*plan);
      if (!outcome.done) continue;
      const auto standing = judge_gpu(*plan);
      if (!standing) return standing.error();
      if (standing->verdict == Standing::Verdict::right) continue;
      outcome.error = "the call ended well, but read back the GPU " + standing->why;
      outcome.cure = "look at `dmesg` for NVRM or Xid lines, then run mig-setup again";
      if (auto undone = roll_back(*plan); !undone) return undone.error();
      if (outcome.emptied) drop(built.gpu_instances, plan->gpu.index);
    }
    alone.clear();
    for (const GpuPlan* plan : together) {
      const auto standing = judge_gpu(*plan);
      if (!standing) return standing.error();
      outcome_of(*plan).done = standing->verdict == Standing::Verdict::right;
      if (outcome_of(*plan).done) continue;
      log_.warn(plan->gpu.show() + ": after the call for several GPUs it " + standing->why +
                "; it is now made by itself");
      alone.push_back(plan);
    }
    together.clear();
    if (alone.empty()) return built;
    for (const GpuPlan* plan : alone) {
      const bool has_any = std::any_of(seen->gpu_instances.begin(), seen->gpu_instances.end(),
                                       [&](const GpuInstance& one) { return one.gpu == plan->gpu.index; });
      if (auto went = build_alone(*plan, has_any); !went) return went.error();
    }
  }
}

// --------------------------------------------------------------------------------------------------- dry run

base::Result<std::string> DryMigChanges::load_driver(host::milliseconds) {
  plan_.add("would run modprobe nvidia");
  return std::string();
}

base::Result<ModeChange> DryMigChanges::set_mode(const std::vector<Gpu>& gpus, bool on) {
  std::vector<std::string> ids;
  for (const Gpu& gpu : gpus) ids.push_back(gpu.bus_id);
  plan_.add("would run nvidia-smi -i " + base::join(ids, ",") + " -mig " + (on ? "1" : "0") +
            ", and ask whether it took");
  ModeChange result{gpus_, "", false};
  for (Gpu& gpu : result.gpus) {
    if (find_by_bus(gpus, gpu.bus_id) != nullptr) gpu.current = gpu.pending = on ? Mode::enabled : Mode::disabled;
  }
  gpus_ = result.gpus;
  return result;
}

base::Status DryMigChanges::clear(const Gpu& gpu) {
  plan_.add("would run nvidia-smi mig -i " + gpu.bus_id + " -dci, then -dgi");
  drop(instances_, gpu.index);
  return base::ok();
}

base::Result<Built> DryMigChanges::build(const std::vector<GpuPlan>& plans) {
  Built built;
  built.is_real = false;
  for (const auto& alike : calls_for(plans)) {
    const GpuPlan& first = *alike.front();
    if (first.clear && !clear(first.gpu)) continue;
    if (first.build) {
      plan_.add("would run nvidia-smi mig -i " + bus_ids(alike) + " -cgi " + cgi_argument(first.placements) + " -C (" +
                show(first.placements) + ")");
    } else if (!first.without_ci.empty()) {
      plan_.add("would run nvidia-smi mig -i " + bus_ids(alike) + " -cci in the GPU instances that have none");
    }
    for (const GpuPlan* plan : alike) {
      for (const Placement& placement : plan->placements) {
        if (!plan->build) break;
        instances_.push_back(
            {plan->gpu.index, placement.profile.name, placement.profile.id, 0, placement.start, placement.size});
      }
      built.outcomes.push_back({plan->gpu.bus_id, true, "", base::ExitCode::change, "", false});
    }
  }
  built.gpu_instances = instances_;
  return built;
}

// --------------------------------------------------------------------------------------------------- the driver

namespace {

std::vector<std::string> missing_on(const std::vector<Gpu>& gpus, const std::vector<std::string>& on_the_bus) {
  std::vector<std::string> missing;
  for (const std::string& bus_id : on_the_bus) {
    if (find_by_bus(gpus, bus_id) == nullptr) missing.push_back(bus_id);
  }
  return missing;
}

}  // namespace

base::Result<std::vector<Gpu>> wait_for_gpus(Smi& smi, MigChanges& changes, const std::vector<std::string>& on_the_bus,
                                             std::optional<unsigned> expected, const host::Deadline& deadline,
                                             host::Clock& clock) {
  const std::size_t wanted = expected ? *expected : on_the_bus.size();
  bool loaded = false;
  std::string modprobe;  // what went wrong with it
  host::milliseconds pause = std::chrono::milliseconds(250);
  std::optional<Error> last;
  for (;;) {
    if (last && deadline.over()) {
      last->what += (modprobe.empty() ? "" : "; " + modprobe) + " (waited for the driver until the limit)";
      return *last;
    }
    // What is left may be too little for an honest call: a slow answer is no hang then.
    const host::milliseconds limit =
        std::max<host::milliseconds>(deadline.limit(site::smi_query_limit), std::chrono::seconds(1));
    Smi::Gpus now = smi.gpus(limit);
    switch (now.answer) {
      case Answer::ok:
        if (now.gpus.size() >= wanted) return std::move(now.gpus);
        last = Error{
            ExitCode::surroundings,
            "the driver lists " + std::to_string(now.gpus.size()) + " of " + std::to_string(wanted) + " GPUs" +
                (missing_on(now.gpus, on_the_bus).empty()
                     ? ""
                     : ", missing: " + base::join(missing_on(now.gpus, on_the_bus), ", ")),
            "look at `dmesg` for NVRM or Xid lines and replace the node, or give the true number with --expect-gpus"};
        break;
      case Answer::not_ready:
        last = now.error;
        if (!on_the_bus.empty()) {
          last->what += "; the PCI bus has " + base::join(on_the_bus, ", ");
        } else if (expected) {
          last->what += "; --expect-gpus says " + std::to_string(*expected) + " GPUs";
        }
        if (!loaded) {
          loaded = true;
          auto went = changes.load_driver(std::max<host::milliseconds>(deadline.left(), std::chrono::seconds(1)));
          if (!went) return went.error();
          modprobe = std::move(*went);
          if (!deadline.over()) continue;
        }
        break;
      case Answer::timed_out:
        if (now.unkillable) return now.error;  // another call would hang as well
        if (!last || limit >= std::chrono::seconds(3)) last = now.error;
        break;
      default: return now.error;
    }
    if (!clock.sleep(deadline.limit(pause)))
      return Error{ExitCode::time_out, "stopped while waiting for the driver: " + last->what, ""};
    pause = std::min<host::milliseconds>(pause * 2, std::chrono::seconds(2));
  }
}

}  // namespace mig
