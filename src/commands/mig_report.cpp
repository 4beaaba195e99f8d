#include "commands/mig_report.h"

#include <algorithm>

#include "base/build_info.h"
#include "base/text.h"
#include "commands/ask_tool.h"
#include "commands/mig_inputs.h"
#include "host/interrupt.h"
#include "host/trusted_file.h"
#include "mig/gres.h"

namespace commands {

using base::Error;
using base::ExitCode;

MigReport::MigReport(const Context& context, const MigSetupOptions& options)
    : print_(options.print), keeps_status_(!options.check), plan_from_(options.plan_from) {
  status_.version = base::build_info().version;
  status_.boot_id = read_line(context.host.files, site::boot_id);
  status_.layout = base::join(options.layouts, " ");
}

mig::GpuStatus* MigReport::of(const std::string& bus_id) {
  for (mig::GpuStatus& gpu : status_.gpus) {
    if (gpu.bus_id == bus_id) return &gpu;
  }
  return nullptr;
}

void MigReport::look(Context& context) {
  if (looked_) return;
  looked_ = true;
  auto found = mig::read_status(context.host.files, true);
  stands_ = mig::stands(found, status_.boot_id);
  if (stands_) earlier_ = std::move(**found);
}

void MigReport::begin(Context& context) {
  status_.result = "running";
  status_.exit_code = base::to_int(ExitCode::change);
  status_.message = "mig-setup is running, or was killed";
  if (context.dry_run()) return;
  look(context);
  if (!stands_) write(context);
}

void MigReport::touches(Context& context) {
  touched_ = true;
  if (!context.dry_run()) write(context);
}

void MigReport::wants(const std::vector<mig::Rule>& rules) { status_.layout = mig::show(rules); }

void MigReport::wants(const std::vector<mig::Wanted>& wanted) {
  for (const mig::Wanted& want : wanted) {
    if (mig::GpuStatus* gpu = of(want.gpu.bus_id)) {
      gpu->layout = want.layout.show();
      gpu->state = want.gpu.current == mig::Mode::unsupported ? "unsupported" : "unknown";
    }
  }
}

void MigReport::sees(const std::vector<mig::Gpu>& gpus) {
  gpus_ = gpus;
  for (const mig::Gpu& seen : gpus) {
    mig::GpuStatus* gpu = of(seen.bus_id);
    if (gpu == nullptr) {
      status_.gpus.emplace_back();
      gpu = &status_.gpus.back();
      gpu->state = "unselected";
    }
    gpu->index = seen.index;
    gpu->bus_id = seen.bus_id;
    gpu->uuid = seen.uuid;
    gpu->name = seen.name;
    gpu->mode_current = mig::word(seen.current);
    gpu->mode_pending = mig::word(seen.pending);
  }
}

void MigReport::sees(const std::vector<mig::GpuInstance>& instances) {
  instances_ = instances;
  for (mig::GpuStatus& gpu : status_.gpus) {
    gpu.instances.clear();
    for (const mig::GpuInstance& instance : instances) {
      if (instance.gpu == gpu.index) gpu.instances.push_back({instance.profile, instance.profile_id});
    }
  }
}

void MigReport::planned(const std::vector<mig::GpuPlan>& plans) {
  for (const mig::GpuPlan& plan : plans) {
    mig::GpuStatus* gpu = of(plan.gpu.bus_id);
    if (gpu == nullptr) continue;
    gpu->state = plan.untouched() ? "right" : "planned";
    gpu->placements.clear();
    for (const mig::Placement& placement : plan.placements)
      gpu->placements.push_back(placement.profile.name + " at " + std::to_string(placement.start));
  }
}

void MigReport::pending(const std::vector<mig::Gpu>& gpus) {
  for (const mig::Gpu& seen : gpus) {
    if (mig::GpuStatus* gpu = of(seen.bus_id); gpu != nullptr && seen.current != seen.pending) gpu->state = "pending";
  }
}

void MigReport::built(const mig::Built& built) {
  for (mig::GpuStatus& gpu : status_.gpus) {
    if (gpu.state == "planned") gpu.state = "right";  // a change of mode alone, judged before
  }
  for (const mig::GpuOutcome& outcome : built.outcomes) {
    mig::GpuStatus* gpu = of(outcome.bus_id);
    if (gpu == nullptr) continue;
    gpu->state = outcome.done ? "right" : "failed";
    gpu->error = outcome.error;
  }
}

void MigReport::warn(Context& context, const std::string& text) {
  status_.warnings.push_back(text);
  context.run.log().warn(text);
}

void MigReport::name_gres(Context& context) {
  mig::Gres gres = mig::gres_for(mig::devices_of(gpus_, instances_));
  status_.gres = std::move(gres.entries);
  for (const std::string& warning : gres.warnings) warn(context, warning);
}

void MigReport::write(Context& context) {
  status_.time = mig::utc(context.host.clock.wall());
  const std::string json = mig::to_json(mig::with(status_, mig::left_undone(status_, earlier_)));
  for (std::string_view path : {site::mig_status_run, site::mig_status_lib}) {
    // Through a link, or in a folder of somebody else, it would be written where others have their say, and the gate
    // would not believe it.
    const std::string folder(path.substr(0, path.rfind('/')));
    if (const std::string fault = host::folder_fault(context.host.files, folder, true); !fault.empty()) {
      if (!told_.insert(folder).second) continue;
      context.run.log().error("the status is not written to " + std::string(path) + ": " + fault +
                              "; remove it, or make it root's and writable by root only, then run mig-setup again");
      continue;
    }
    if (auto written = context.host.files.replace(std::string(path), json, 0644); !written) {
      context.run.log().warn("the status cannot be written: " + written.error().what);
      // The status of an earlier run would let the gate pass a node that this run has changed: none is better.
      if (auto removed = context.host.files.remove(std::string(path)); !removed) {
        context.run.log().error("the old status cannot be removed either: " + removed.error().what);
      }
    }
  }
}

int MigReport::ended(Context& context, const std::string& result, const std::string& done, std::string& out) {
  const bool would = context.dry_run() && result == "changed";
  const std::string message = would ? "every selected GPU would get its layout" : done;
  status_.result = would ? "planned" : result;
  status_.exit_code = 0;
  status_.message = message;
  status_.time = mig::utc(context.host.clock.wall());
  if (context.dry_run()) {
    status_.dry_run = true;
    status_.planned = context.plan->sentences();
    for (mig::GpuStatus& gpu : status_.gpus) {
      if (gpu.state == "right" && !gpu.placements.empty()) gpu.state = "planned";
    }
  }
  status_.cure.clear();
  name_gres(context);
  if (!plan_from_.empty()) {
    for (const std::string& line : tell_change(context, plan_from_, status_.gres)) context.run.log().info(line);
  }
  note_what_is_printed(context, print_, status_);
  const auto undone = mig::left_undone(status_, earlier_);
  for (const mig::GpuStatus& gpu : undone) {
    warn(context, "GPU " + std::to_string(gpu.index) + " (" + gpu.bus_id +
                      ") was not selected and is still not right from an earlier run of this boot, so the gate in "
                      "front of slurmd stays shut: " +
                      gpu.error + "; run mig-setup for this GPU as well");
  }
  status_ = mig::with(std::move(status_), undone);
  if (!context.dry_run()) write(context);
  out = print_form(print_, status_);
  context.run.log().info(message + "; Gres=" + mig::gres_text(status_.gres));
  context.run.report().summary = message;
  return 0;
}

int MigReport::refused(Context& context, const Error& error, std::string& out) {
  look(context);
  keeps_status_ = keeps_status_ && !stands_;
  if (stands_) context.run.log().info("nothing was touched: the status of the run before stays");
  return failed(context, error, out);
}

int MigReport::untold(Context& context, const Error& error, std::string& out) {
  keeps_status_ = false;
  return failed(context, error, out);
}

int MigReport::failed(Context& context, const Error& error, std::string& out) {
  const int signal = host::stop_signal();
  int code = base::to_int(error.code);
  if (signal != 0) {
    context.run.log().error("stopped by signal " + std::to_string(signal));
    host::acknowledge_stop_signal();
    code = base::signal_exit_base + signal;
    if (!touched_ && stands_) keeps_status_ = false;  // it was stopped, which says nothing of the GPUs
  }
  if (!touched_ && !context.dry_run()) {
    for (mig::GpuStatus& gpu : status_.gpus) {
      if (gpu.state == "planned") gpu.state = "unknown";
    }
  }
  status_.result = error.code == ExitCode::reboot_needed ? "pending" : "failed";
  status_.exit_code = code;
  status_.time = mig::utc(context.host.clock.wall());
  status_.message = error.what;
  status_.cure = error.cure;
  // A node of which nothing was seen (wrong words, no root) keeps no status in a dry run, and none that was not begun.
  if (keeps_status_ && !context.dry_run() && context.host.processes.is_root()) write(context);
  context.run.report().error = error;
  context.run.report().summary = "failed: " + error.what;
  if (print_ == MigPrint::json) out = print_form(print_, status_);
  return code;
}

void MigReport::rebooting(Context& context, const Error& error) {
  status_.result = "rebooting";
  status_.exit_code = base::to_int(ExitCode::reboot_needed);
  status_.message = error.what;
  status_.cure = "wait for the reboot";
  write(context);
  context.run.report().error = error;
  context.run.report().summary = "rebooting: " + error.what;
}

namespace {

bool is_aws(MigPrint form) { return form == MigPrint::aws_cli || form == MigPrint::aws_json; }

}  // namespace

void note_what_is_printed(Context& context, MigPrint form, const mig::Status& status) {
  if (!is_aws(form)) return;
  if (status.gres.empty()) {
    context.run.log().warn(
        "nothing is printed: this layout leaves no device for Slurm, so that there is no Gres to set (take the entry "
        "out of slurmCustomSettings)");
  } else {
    context.run.log().warn("note: " + std::string(mig::aws_note));
  }
}

std::string print_form(MigPrint form, const mig::Status& status) {
  if (is_aws(form) && status.gres.empty()) return "";
  switch (form) {
    case MigPrint::gres: return mig::gres_text(status.gres) + "\n";
    case MigPrint::aws_cli: return mig::aws_cli(status.gres) + "\n";
    case MigPrint::aws_json: return mig::aws_json(status.gres) + "\n";
    case MigPrint::json: break;
  }
  return mig::to_json(status);
}

std::vector<std::string> tell_change(Context& context, const std::string& before,
                                     const std::vector<mig::GresEntry>& after) {
  const auto old = mig::parse_given_gres(before);
  if (!old) return {"--plan-from: " + old.error().what};
  std::vector<std::string> stale;
  const auto scontrol = find_scontrol(context);
  if (scontrol) {
    const host::Exit exit = ask_slurm(context, *scontrol, {"-o", "show", "node"});
    if (answered(exit)) {
      stale = mig::stale_nodes(exit.out, *old, after);
    } else {
      context.run.log().warn("which nodes still advertise the old layout is not known: scontrol show node: " +
                             host::describe(exit));
    }
  }
  return mig::tell(mig::change_of(*old, after), stale);
}

}  // namespace commands
