#include "commands/mig_reboot.h"

#include <cerrno>

#include "base/duration.h"
#include "base/text.h"
#include "commands/ask_tool.h"
#include "commands/mig_inputs.h"
#include "host/boot_time.h"
#include "host/trusted_file.h"
#include "mig/holders.h"
#include "mig/reboot.h"

namespace commands {

using base::Error;
using base::ExitCode;

namespace {

using namespace std::chrono_literals;

mig::RebootFacts gather(const Context& context, MigReboot policy) {
  const host::Host& host = context.host;
  mig::RebootFacts facts;
  facts.policy = policy == MigReboot::force        ? mig::RebootPolicy::force
                 : policy == MigReboot::if_pending ? mig::RebootPolicy::if_pending
                                                   : mig::RebootPolicy::no;
  facts.instance_id = instance_id(host);
  facts.boot_id = read_line(host.files, site::boot_id);
  const std::string path(site::mig_reboot_marker);
  const auto marker = host.files.read(path, 65'536);
  facts.marker_there = marker.has_value() || marker.error().os_error != ENOENT;
  // A marker that others could have written says nothing about whose launch it is.
  if (marker && host::file_fault(host.files, path, true).empty()) facts.marker = mig::parse_marker(*marker);
  facts.slurmd_runs = !mig::slurm_daemons(host.files, host.processes.self()).empty();
  facts.why_finished = mig::boot_finished(host.files);
  facts.boot_finished = !facts.why_finished.empty();
  return facts;
}

// cloud-init writes its files anew at each boot. An older one may be what an image was built with.
bool is_of_an_earlier_boot(const host::Files& files, std::string_view path) {
  const auto status = files.status(std::string(path));
  const auto boot = host::boot_time_ns(files);
  return status && *status && boot && (*status)->modified_ns < *boot;
}

// On disk and read back before the reboot is asked for: without it, the next boot would not know of this one. What is
// in memory reads back as well, and what others may remove is as good as none.
base::Status leave_marker(Context& context, const mig::RebootMarker& marker, bool pending_from_the_start) {
  const std::string path(site::mig_reboot_marker);
  const std::string cure =
      "let " + std::string(site::lib_dir) + " be a folder of root's on the root disk, or reboot the node by hand";
  if (const std::string fault = host::folder_fault(context.host.files, std::string(site::lib_dir), true);
      !fault.empty()) {
    return Error{ExitCode::change, fault, cure};
  }
  const auto lasting = context.host.files.survives_reboot(path);
  if (!lasting) return lasting.error();
  if (!*lasting) {
    const std::string why = path +
                            " would lie on a file system that may not survive a reboot (memory, an overlay) or that "
                            "several nodes share";
    // The next boot may know of this one only by the mode that is pending still.
    if (pending_from_the_start) {
      return Error{ExitCode::change, why + ", and the mode was pending before this run asked for it", cure};
    }
    context.run.log().warn(why + ": a mode that is pending at the next boot will not reboot it again");
  }
  const std::string text = mig::to_json(marker);
  if (auto written = context.host.files.replace(path, text, 0600); !written) return written;
  const auto back = context.host.files.read(path, 65'536);
  if (!back || *back != text) return Error{ExitCode::change, path + " does not read back as written", ""};
  return base::ok();
}

}  // namespace

std::string instance_id(const host::Host& host) {
  const auto fit = [](std::string_view text) {
    const std::string trimmed(base::trim(text));
    const bool clean = trimmed.find_first_not_of(
                           "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:") == std::string::npos;
    return clean && trimmed.size() <= 100 ? trimmed : std::string();
  };
  std::string id = fit(host.environment.get_or("INSTANCE_ID", ""));
  if (!id.empty()) return id;
  const std::string kept = fit(read_line(host.files, site::cloud_instance_id));
  // Elsewhere than on EC2 boards carry words like "Default string".
  std::string board = fit(read_line(host.files, site::dmi_board_asset_tag));
  if (!board.starts_with("i-")) board.clear();
  if (board.empty() || (!kept.empty() && !is_of_an_earlier_boot(host.files, site::cloud_instance_id))) return kept;
  return board;
}

void forget_reboot(Context& context) {
  const std::string path(site::mig_reboot_marker);
  const auto there = context.host.files.status(path);
  if (!there || !*there) return;
  if (auto removed = context.host.files.remove(path); !removed)
    context.run.log().warn("the reboot marker stays: " + removed.error().what);
}

int reboot_or_tell(Context& context, const MigSetupOptions& options, const std::string& layout, const Error& pending,
                   bool pending_from_the_start, MigReport& report, std::string& out) {
  host::Log& log = context.run.log();
  const auto tell = [&](const std::string& why, const std::string& cure) {
    Error error = pending;
    error.what += "; " + why;
    error.cure = cure;
    log.error(flow::one_line(error));
    return report.failed(context, error, out);
  };
  if (context.dry_run()) return tell("no reboot: this is a dry run", "reboot the node");
  if (context.has_root) return tell("no reboot: --root is not this machine", "reboot the node by hand");
  const mig::RebootFacts facts = gather(context, options.reboot);
  const mig::RebootVerdict verdict = mig::decide_reboot(facts);
  if (!verdict.reboot) return tell(verdict.why, verdict.cure);

  const auto tool = find_listed_tool(context, "systemctl", site::systemctl);
  if (!tool) return tell("no reboot: " + tool.error().what, "reboot the node by hand");
  if (auto left = leave_marker(context, {facts.instance_id, facts.boot_id, layout}, pending_from_the_start); !left) {
    return tell("no reboot: the marker that prevents a reboot loop cannot be kept: " + left.error().what,
                left.error().cure.empty() ? "make /var/lib/gpu-prolog writable, or reboot the node by hand"
                                          : left.error().cure);
  }
  log.warn("rebooting the node: " + verdict.why + "; " + pending.what);
  report.rebooting(context, pending);
  const host::Exit asked = ask_tool(context, *tool, {"--no-block", "reboot"}, site::systemctl_limit, short_answer);
  if (!asked.succeeded()) return tell("systemctl reboot failed: " + host::describe(asked), "reboot the node by hand");
  // The boot must not go on to slurmd meanwhile. TERM comes with the shutdown and ends the wait.
  if (!context.host.clock.sleep(site::reboot_wait)) return base::to_int(ExitCode::reboot_needed);
  // Another call of systemctl would ask the same systemd that hangs: so the kernel itself.
  log.error("the shutdown did not reach us within " + base::show_duration(site::reboot_wait) + ": rebooting at once");
  const base::Status stayed = context.host.machine.reboot_now();
  return tell("the node did not reboot: " + (stayed ? "the call came back" : stayed.error().what),
              "reboot the node by hand");
}

}  // namespace commands
