#include "commands/mig_setup.h"

#include <algorithm>
#include <cerrno>
#include <map>
#include <memory>

#include "base/build_info.h"
#include "base/duration.h"
#include "base/text.h"
#include "commands/ask_tool.h"
#include "commands/mig_check.h"
#include "commands/mig_inputs.h"
#include "commands/mig_reboot.h"
#include "commands/mig_report.h"
#include "host/interrupt.h"
#include "host/trusted_file.h"
#include "mig/caps.h"
#include "mig/gres.h"
#include "mig/holders.h"
#include "mig/plan.h"
#include "mig/reboot.h"
#include "mig/smi.h"
#include "mig/status.h"

namespace mig {

// What the runner says of a step that went well; found by the types' own namespace.
static std::string describe(const std::vector<Rule>& rules) { return show(rules); }
static std::string describe(const std::vector<Gpu>& gpus) {
  std::map<std::string, unsigned> names;
  for (const Gpu& gpu : gpus) ++names[gpu.name];
  std::vector<std::string> parts;
  for (const auto& [name, count] : names) parts.push_back(std::to_string(count) + " " + name);
  return base::join(parts, ", ") + ", driver " + gpus.front().driver;
}
static std::string describe(const std::vector<Wanted>& wanted) { return std::to_string(wanted.size()) + " GPUs"; }
static std::string describe(const Seen& seen) {
  return std::to_string(seen.gpu_instances.size()) + " GPU instances, " +
         std::to_string(seen.compute_instances.size()) + " compute instances";
}
static std::string describe(const Boards& boards) {
  std::size_t profiles = 0;
  for (const auto& [index, board] : boards) profiles += board.size();
  return std::to_string(profiles) + " profiles of " + std::to_string(boards.size()) + " GPUs";
}
static std::string describe(const std::vector<GpuPlan>& plans) {
  const auto changed = std::count_if(plans.begin(), plans.end(), [](const GpuPlan& plan) { return !plan.untouched(); });
  return std::to_string(changed) + " of " + std::to_string(plans.size()) + " GPUs need a change";
}
static std::string describe(const Built& built) {
  const auto done =
      std::count_if(built.outcomes.begin(), built.outcomes.end(), [](const GpuOutcome& o) { return o.done; });
  if (!built.is_real) return "instances on " + std::to_string(done) + " GPUs, as below";
  return std::to_string(done) + " of " + std::to_string(built.outcomes.size()) + " GPUs, read back";
}

}  // namespace mig

namespace commands {

using base::Error;
using base::ExitCode;
using base::Status;

namespace {

using namespace std::chrono_literals;

// Text as a step's result.
struct Words {
  std::string text;
};
std::string describe(const Words& words) { return words.text; }

Status check_root(const Context& context) {
  if (context.host.processes.is_root() || context.dry_run()) return base::ok();
  return Error{ExitCode::surroundings, "not run as root",
               "MIG can only be changed by root: use sudo, or --dry-run, or --check"};
}

// The folders of the lock, the status and the marker. /var may be read-only this early: then without.
void make_folders(Context& context) {
  for (std::string_view folder : {site::run_dir, site::lib_dir}) {
    const std::string path(folder);
    const std::string fault = host::folder_fault(context.host.files, path, true);
    const auto made = context.host.files.make_directory(path, 0755);
    if (!made) {
      context.run.log().warn(made.error().what);
    } else if (!fault.empty() && host::folder_fault(context.host.files, path, true).empty()) {
      context.run.log().warn(fault + ": its mode is 0755 again; find out what made it so");
    }
  }
}

base::Result<std::unique_ptr<host::Lock>> lock_node(Context& context, host::milliseconds limit) {
  const std::string holder = "mig-setup, pid " + std::to_string(context.host.processes.self());
  return context.host.locks.acquire(std::string(site::mig_lock), holder, limit);
}

std::string find_modprobe(Context& context) {
  const auto tool = find_listed_tool(context, "modprobe", site::modprobe);
  if (!tool) context.run.log().warn("the driver will not be loaded by us: " + tool.error().what);
  return tool ? *tool : "";
}

bool all_readable(const std::vector<mig::Wanted>& wanted) {
  return std::none_of(wanted.begin(), wanted.end(), [](const mig::Wanted& want) {
    return want.gpu.current == mig::Mode::unknown || want.gpu.pending == mig::Mode::unknown;
  });
}

bool any_on(const std::vector<mig::Gpu>& gpus) {
  return std::any_of(gpus.begin(), gpus.end(), [](const mig::Gpu& gpu) { return gpu.current == mig::Mode::enabled; });
}

// slurmd would go on with devices that are gone, and a change under a GPU process stays pending or fails half-way.
Status check_idle(Context& context, const std::vector<mig::GpuPlan>& plans, mig::Smi& smi, bool force) {
  const host::Host& host = context.host;
  std::vector<std::string> in_use = mig::slurm_daemons(host.files, host.processes.self());
  bool services = false;
  for (const mig::Holder& holder : mig::find_holders(host.files, host.processes.self())) {
    if (mig::is_service(holder)) {
      services = true;
    } else {
      in_use.push_back(mig::show(holder));
    }
  }
  // Holders show in /proc; nvidia-smi is asked as well where a process may hold a GPU in a way that does not.
  const bool on = std::any_of(plans.begin(), plans.end(), [](const mig::GpuPlan& plan) {
    return !plan.untouched() && plan.gpu.current == mig::Mode::enabled;
  });
  if (in_use.empty() && (services || on)) {
    auto apps = smi.compute_apps();
    if (!apps) return apps.error();
    for (const mig::ComputeApp& app : *apps) in_use.push_back(app.name + " (pid " + app.pid + ")");
  }
  if (in_use.empty()) return base::ok();
  const std::string who = base::join(in_use, ", ");
  if (force) {
    context.run.log().warn("changing GPUs although they are in use (--force): " + who);
    return base::ok();
  }
  return Error{ExitCode::change, "a GPU has to be changed, and it may be in use by " + who + "; nothing was touched",
               "run mig-setup before slurmd and before any GPU program; or drain the node, end these, and run it "
               "again; or --force"};
}

struct ModeWords {
  std::vector<std::string> pending;
  std::vector<std::string> refused;
};

// Only the query counts: both fields as wanted.
ModeWords judge_mode(const std::vector<mig::GpuPlan>& plans, const std::vector<mig::Gpu>& gpus) {
  ModeWords words;
  for (const mig::GpuPlan& plan : plans) {
    if (!plan.switch_on && !plan.switch_off) continue;
    const mig::Gpu* gpu = mig::find_by_bus(gpus, plan.gpu.bus_id);
    const mig::Mode wanted = plan.switch_on ? mig::Mode::enabled : mig::Mode::disabled;
    if (gpu == nullptr) {
      words.refused.push_back(plan.gpu.show() + " is gone");
    } else if (gpu->current == wanted && gpu->pending == wanted) {
      continue;
    } else {
      (gpu->pending == wanted ? words.pending : words.refused).push_back(gpu->show() + " (" + gpu->mode_words + ")");
    }
  }
  return words;
}

// The change of mode may renumber GPUs (NVML says so of their minors); the bus id stays.
void follow(std::vector<mig::GpuPlan>& plans, const std::vector<mig::Gpu>& gpus) {
  for (mig::GpuPlan& plan : plans) {
    if (const mig::Gpu* gpu = mig::find_by_bus(gpus, plan.gpu.bus_id)) plan.gpu = *gpu;
  }
}

base::Result<Words> switch_modes(std::vector<mig::GpuPlan>& plans, mig::MigChanges& changes,
                                 std::vector<mig::Gpu>& gpus, ModeWords& words) {
  std::string said;
  bool is_real = true;
  for (const bool on : {false, true}) {
    std::vector<mig::Gpu> these;
    for (const mig::GpuPlan& plan : plans) {
      if (on ? plan.switch_on : plan.switch_off) these.push_back(plan.gpu);
    }
    if (these.empty()) continue;
    auto changed = changes.set_mode(these, on);
    if (!changed) return changed.error();
    gpus = changed->gpus;
    is_real = changed->is_real;
    said += (said.empty() ? "" : " ") + changed->said;
  }
  words = judge_mode(plans, gpus);
  if (!words.refused.empty()) {
    return Error{base::contains_ignoring_case(said, "Not Supported") && words.pending.empty() ? ExitCode::surroundings
                                                                                              : ExitCode::change,
                 "the MIG mode of " + base::join(words.refused, ", ") +
                     " did not change (current, pending); nvidia-smi said: " + said,
                 "look at `dmesg` for NVRM or Xid lines; driver " + gpus.front().driver};
  }
  follow(plans, gpus);
  if (!is_real) return Words{"a change, as below"};
  return Words{words.pending.empty() ? "current and pending as wanted on every GPU"
                                     : "pending on " + base::join(words.pending, ", ")};
}

Error pending_error(Context& context, const ModeWords& words, const std::vector<mig::Gpu>& gpus) {
  const host::Host& host = context.host;
  const std::string holders =
      mig::show_holders(mig::find_holders(host.files, host.processes.self()), mig::module_holders(host.files), gpus);
  return {ExitCode::reboot_needed,
          "the MIG mode is pending (current, pending) on " + base::join(words.pending, ", ") + " (driver " +
              gpus.front().driver + "); the GPUs are held by: " + holders,
          ""};
}

Status empty_for_off(std::vector<mig::GpuPlan>& plans, mig::MigChanges& changes) {
  for (mig::GpuPlan& plan : plans) {
    if (!plan.switch_off || !plan.clear) continue;
    auto cleared = changes.clear(plan.gpu);
    if (!cleared)
      return Error{cleared.error().code, plan.gpu.show() + ": " + cleared.error().what, cleared.error().cure};
    plan.clear = false;
  }
  return base::ok();
}

void warn_of_missing_caps(Context& context, MigReport& report, const std::vector<mig::Gpu>& gpus,
                          const std::vector<mig::GpuInstance>& instances) {
  const auto missing = mig::missing_caps(context.host.files, gpus, instances);
  if (missing.empty()) return;
  std::vector<std::string> few(missing.begin(),
                               missing.begin() + static_cast<std::ptrdiff_t>(std::min<std::size_t>(missing.size(), 4)));
  report.warn(context, std::to_string(missing.size()) +
                           " capability files are missing, slurmd will skip these MIG devices: " +
                           base::join(few, ", ") + (missing.size() > few.size() ? ", ..." : "") +
                           "; `nvidia-modprobe` or `nvidia-smi -L` as root makes them");
}

}  // namespace

Status check_mig_words(const MigSetupOptions& options) {
  if (!options.board_file.empty() && !options.check) {
    return Error{ExitCode::usage, "--board is for --check only",
                 "add --check, or leave --board out to work on this node's GPUs"};
  }
  if (options.deadline < site::mig_least_deadline) {
    return Error{ExitCode::usage,
                 "--deadline " + base::show_duration(options.deadline) + " leaves no time to do anything",
                 "give at least " + base::show_duration(site::mig_least_deadline) + "; without it the limit is " +
                     base::show_duration(site::mig_deadline)};
  }
  if (const auto before = mig::parse_given_gres(options.plan_from); !before)
    return Error{ExitCode::usage, "--plan-from: " + before.error().what, before.error().cure};
  return base::ok();
}

int mig_setup(Context& context, const MigSetupOptions& options, std::string& out) {
  if (options.check) return mig_check(context, options, out);

  const host::Host& host = context.host;
  flow::Runner& run = context.run;
  const host::Deadline deadline(host.clock, options.deadline);
  MigReport report(context, options);
  const auto failed = [&](const Error& error) { return report.failed(context, error, out); };
  const auto refused = [&](const Error& error) { return report.refused(context, error, out); };

  // --- words, surroundings -------------------------------------------------------------------------------
  std::unique_ptr<host::Lock> held;
  const auto words = run.step("words", [&] { return check_mig_words(options); });
  if (!words) {
    if (context.dry_run() || !context.host.processes.is_root()) return failed(words.error());
    make_folders(context);
    auto lock = lock_node(context, 0ms);
    if (!lock && lock.error().code == ExitCode::time_out) return report.untold(context, words.error(), out);
    if (lock) held = std::move(*lock);
    return refused(words.error());
  }
  const auto root = run.step("root", [&] { return check_root(context); });
  if (!root) return failed(root.error());
  if (!context.dry_run()) {
    make_folders(context);
    auto lock = run.step("lock", [&] { return lock_node(context, deadline.left()); });
    if (!lock && lock.error().code == ExitCode::time_out) return report.untold(context, lock.error(), out);
    if (!lock) return refused(lock.error());
    held = std::move(*lock);
  }
  report.begin(context);
  const auto rules = run.step("layout", [&] {
    return read_rules(host.files, {options.layouts, options.layout_file, options.layout_name});
  });
  if (!rules) return refused(rules.error());
  report.wants(*rules);
  if (may_have_no_gpu(host.files, options)) {
    return report.ended(context, "unsupported", std::string(no_gpu_words), out);
  }
  const auto tool = run.step("nvidia-smi", [&]() -> base::Result<Words> {
    auto found = find_nvidia_smi(context);
    if (!found) return found.error();
    return Words{std::move(*found)};
  });
  if (!tool) return failed(tool.error());

  // --- driver, GPUs --------------------------------------------------------------------------------------
  mig::Smi smi(host.processes, tool->text, deadline);
  std::unique_ptr<mig::MigChanges> changes;
  mig::DryMigChanges* dry = nullptr;
  if (context.dry_run()) {
    auto made = std::make_unique<mig::DryMigChanges>(*context.plan);
    dry = made.get();
    changes = std::move(made);
  } else {
    changes = std::make_unique<mig::RealMigChanges>(smi, host.processes, host.clock, run.log(), find_modprobe(context),
                                                    std::min<host::milliseconds>(10s, options.deadline * 2 / 3),
                                                    std::min(site::mig_least_change, options.deadline / 10));
  }
  const auto driver = run.step("driver", [&] {
    return mig::wait_for_gpus(smi, *changes, mig::pci_gpus(host.files), options.expect_gpus,
                              deadline.within(options.driver_timeout), host.clock);
  });
  if (!driver) return failed(driver.error());
  std::vector<mig::Gpu> gpus = *driver;
  report.sees(gpus);
  const auto selected = run.step("selection", [&] { return mig::select(*rules, gpus); });
  if (!selected) return refused(selected.error());
  report.wants(*selected);
  const auto wanted =
      run.step("MIG support", [&] { return keep_supported(*selected, options.if_supported, run.log()); });
  // A GPU without MIG was selected by mistake; one whose mode cannot be read is the node's fault.
  if (!wanted) return all_readable(*selected) ? refused(wanted.error()) : failed(wanted.error());

  // --- what is there, what is to be done -----------------------------------------------------------------
  mig::Seen seen;
  if (any_on(gpus)) {
    const auto looked = run.step("instances", [&] { return smi.seen(); });
    if (!looked) return failed(looked.error());
    seen = *looked;
  }
  report.sees(seen.gpu_instances);
  if (wanted->empty()) return report.ended(context, "unsupported", std::string(no_mig_words), out);
  if (const auto right = mig::already_right(*wanted, seen)) {
    report.planned(*right);
    if (!context.dry_run()) forget_reboot(context);
    return report.ended(context, "unchanged", "nothing to do: every selected GPU has its layout already", out);
  }
  mig::Boards boards;
  const bool split = std::any_of(wanted->begin(), wanted->end(),
                                 [](const mig::Wanted& want) { return want.layout.kind != mig::Layout::Kind::off; });
  if (split) {
    const auto listed = run.step("profiles", [&] { return smi.boards(); });
    if (!listed) return failed(listed.error());
    boards = *listed;
  }
  auto planned = run.step("plan", [&] { return mig::plan(*wanted, boards, seen); });
  if (!planned) return refused(planned.error());
  std::vector<mig::GpuPlan> plans = *planned;
  report.planned(plans);
  for (const mig::GpuPlan& plan : plans) {
    run.log().info(mig::show(plan));
    for (const mig::Resolved& resolved : plan.wanted) {
      if (resolved.drifted)
        run.log().info(plan.gpu.show() + ": " + resolved.written + " is " + resolved.profile.name +
                       " in this driver's words");
    }
  }
  const bool nothing =
      std::all_of(plans.begin(), plans.end(), [](const mig::GpuPlan& plan) { return plan.untouched(); });
  if (nothing)
    return report.ended(context, "unchanged", "nothing to do: every selected GPU has its layout already", out);
  const auto idle = run.step("in use", [&] { return check_idle(context, plans, smi, options.force); });
  if (!idle) return idle.error().code == ExitCode::change ? refused(idle.error()) : failed(idle.error());

  // --- changes: instances of GPUs to switch off, mode, instances -----------------------------------------
  if (dry != nullptr) dry->start_from(gpus, seen.gpu_instances);
  if (host::stopping()) return failed({ExitCode::time_out, "stopped before the first change", ""});
  report.touches(context);
  const auto emptied = run.step("destroy", [&] { return empty_for_off(plans, *changes); });
  if (!emptied) return failed(emptied.error());
  ModeWords mode_words;
  const bool pending_from_the_start = std::any_of(
      plans.begin(), plans.end(), [](const mig::GpuPlan& plan) { return plan.gpu.current != plan.gpu.pending; });
  const auto mode = run.step("MIG mode", [&] { return switch_modes(plans, *changes, gpus, mode_words); });
  report.sees(gpus);
  if (!mode) return failed(mode.error());
  if (!mode_words.pending.empty()) {
    const Error pending = pending_error(context, mode_words, gpus);
    report.pending(gpus);
    return reboot_or_tell(context, options, mig::show(*rules), pending, pending_from_the_start, report, out);
  }
  if (!context.dry_run()) forget_reboot(context);
  const auto built = run.step("create", [&] { return changes->build(plans); });
  if (!built) return failed(built.error());
  report.sees(built->gpu_instances);
  report.built(*built);
  std::vector<std::string> bad;
  std::vector<std::string> cures;
  ExitCode code = ExitCode::surroundings;  // no permission on every one of them; else a change failed
  for (const mig::GpuOutcome& outcome : built->outcomes) {
    if (outcome.done) continue;
    const mig::Gpu* gpu = mig::find_by_bus(gpus, outcome.bus_id);
    if (outcome.code != ExitCode::surroundings) code = ExitCode::change;
    if (!outcome.cure.empty() && std::find(cures.begin(), cures.end(), outcome.cure) == cures.end())
      cures.push_back(outcome.cure);
    bad.push_back((gpu != nullptr ? gpu->show() : outcome.bus_id) + ": " + outcome.error);
  }
  if (!context.dry_run()) warn_of_missing_caps(context, report, gpus, built->gpu_instances);
  if (!bad.empty()) {
    const auto processes = mig::find_holders(host.files, host.processes.self());
    const auto modules = mig::module_holders(host.files);
    std::string who;
    if (!processes.empty() || !modules.empty())
      who = " (the GPUs are held by: " + mig::show_holders(processes, modules, {}) + ")";
    return failed({code, base::join(bad, "; ") + who,
                   base::join(cures, "; ") + "; a next run of mig-setup repairs what is not right"});
  }
  return report.ended(context, "changed", "every selected GPU has its layout now, read back from the driver", out);
}

}  // namespace commands
