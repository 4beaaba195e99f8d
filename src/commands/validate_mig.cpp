#include "commands/validate_mig.h"

#include <algorithm>
#include <map>

#include "base/text.h"
#include "commands/ask_tool.h"
#include "commands/mig_inputs.h"
#include "host/trusted_tool.h"
#include "mig/caps.h"
#include "mig/gres.h"
#include "mig/holders.h"
#include "mig/plan.h"
#include "mig/slurm_view.h"
#include "mig/smi.h"
#include "mig/status.h"
#include "site/site.h"
#include "slurm/conf.h"

namespace commands {

using flow::Findings;

namespace {

using namespace std::chrono_literals;

const std::string subject = "mig";
constexpr std::size_t largest_log = 32U << 20U;

using FoundStatus = base::Result<std::optional<mig::Status>>;

// Below --root the files may be a person's own, kept from a node.
FoundStatus find_status(const Context& context) {
  return mig::read_status(context.host.files, !context.has_root || context.host.processes.is_root());
}

mig::GateVerdict judge(const Context& context, const FoundStatus& found) {
  return mig::gate(found, read_line(context.host.files, site::boot_id));
}

void check_gate(Context& context, Findings& findings) {
  const auto verdict = judge(context, find_status(context));
  if (verdict.open) {
    findings.ok(subject, "gate", verdict.found);
  } else {
    findings.fail(subject, "gate", verdict.found, verdict.cure);
  }
}

void check_status(Context& context, const FoundStatus& found, bool layout_given, Findings& findings) {
  if (!found) {
    findings.fail(subject, "mig-setup", found.error().what, found.error().cure);
    return;
  }
  if (!*found) {
    if (layout_given) {
      findings.skip(subject, "mig-setup", "no status file: mig-setup has not run here");
    } else {
      findings.warn(subject, "mig-setup", "no status file: mig-setup has not run here",
                    "run it before slurmd, or give --layout to compare with");
    }
    return;
  }
  const mig::Status& status = **found;
  const auto verdict = judge(context, found);
  const bool of_this_boot = status.boot_id == read_line(context.host.files, site::boot_id);
  if (verdict.open) {
    findings.ok(subject, "mig-setup", verdict.found + " (" + status.time + ")");
  } else if (of_this_boot) {
    findings.fail(subject, "mig-setup", verdict.found, verdict.cure);
  } else {
    findings.warn(subject, "mig-setup", verdict.found, verdict.cure);
  }
}

void check_bus(const std::vector<mig::Gpu>& gpus, const std::vector<std::string>& on_the_bus, Findings& findings) {
  std::vector<std::string> missing;
  for (const std::string& bus_id : on_the_bus) {
    if (mig::find_by_bus(gpus, bus_id) == nullptr) missing.push_back(bus_id);
  }
  if (missing.empty()) {
    std::map<std::string, unsigned> names;
    for (const mig::Gpu& gpu : gpus) ++names[gpu.name];
    std::vector<std::string> parts;
    for (const auto& [name, count] : names) parts.push_back(std::to_string(count) + " of " + name);
    findings.ok(subject, "gpus", base::join(parts, ", ") + ", driver " + gpus.front().driver);
  } else {
    findings.fail(subject, "gpus", "the PCI bus has GPUs that the driver does not list: " + base::join(missing, ", "),
                  "look at `dmesg` for NVRM or Xid lines, and replace the node");
  }
}

void check_mode(Context& context, const std::vector<mig::Gpu>& gpus, Findings& findings) {
  std::vector<std::string> pending;
  std::vector<std::string> unknown;
  unsigned on = 0;
  for (const mig::Gpu& gpu : gpus) {
    if (gpu.current == mig::Mode::unknown || gpu.pending == mig::Mode::unknown) {
      unknown.push_back(gpu.show() + " answers '" + gpu.mode_words + "'");
    } else if (gpu.current != gpu.pending) {
      pending.push_back(gpu.show() + " (" + gpu.mode_words + ")");
    } else if (gpu.on()) {
      ++on;
    }
  }
  if (!unknown.empty())
    findings.fail(subject, "mode", base::join(unknown, ", "),
                  "look at `dmesg` for NVRM or Xid lines, and replace the node");
  if (!pending.empty()) {
    const std::string holders = mig::show_holders(mig::find_holders(context.host.files, context.host.processes.self()),
                                                  mig::module_holders(context.host.files), gpus);
    findings.fail(subject, "mode",
                  "MIG mode is pending (current, pending) on " + base::join(pending, ", ") + "; held by: " + holders,
                  "reboot the node; at boot `gpu-prolog mig-setup ... --reboot=if-pending` does it once");
  }
  if (unknown.empty() && pending.empty())
    findings.ok(subject, "mode",
                "MIG is on on " + std::to_string(on) + " of " + std::to_string(gpus.size()) + " GPUs, none is pending");
}

void check_instances(const std::vector<mig::Gpu>& gpus, const mig::Seen& seen, const std::vector<mig::Wanted>& wanted,
                     Findings& findings) {
  std::vector<std::string> empty;
  std::vector<std::string> bare;
  for (const mig::Gpu& gpu : gpus) {
    if (gpu.current != mig::Mode::enabled) continue;
    bool any = false;
    for (const mig::GpuInstance& instance : seen.gpu_instances) {
      if (instance.gpu != gpu.index) continue;
      any = true;
      const bool holds = std::any_of(seen.compute_instances.begin(), seen.compute_instances.end(),
                                     [&](const mig::ComputeInstance& inside) {
                                       return inside.gpu == gpu.index && inside.gpu_instance == instance.id;
                                     });
      if (!holds)
        bare.push_back(gpu.show() + " GPU instance " + std::to_string(instance.id) + " (" + instance.profile + ")");
    }
    const bool asked_for = std::any_of(wanted.begin(), wanted.end(), [&](const mig::Wanted& want) {
      return want.gpu.bus_id == gpu.bus_id && want.layout.kind == mig::Layout::Kind::empty;
    });
    if (!any && !asked_for) empty.push_back(gpu.show());
  }
  if (!empty.empty()) {
    findings.fail(
        subject, "instances",
        "MIG is on but there are no instances on " + base::join(empty, ", ") + ": slurmd finds no usable device there",
        "run `gpu-prolog mig-setup` with the layout, then start slurmd anew");
  }
  if (!bare.empty()) {
    findings.fail(subject, "compute instances",
                  "no compute instance in " + base::join(bare, ", ") + ": it is no device for programs",
                  "run `gpu-prolog mig-setup` with the layout, it adds what is missing");
  }
  if (empty.empty() && bare.empty()) {
    findings.ok(subject, "instances",
                std::to_string(seen.gpu_instances.size()) + " GPU instances, each with a compute instance");
  }
}

// Without MIG, and left out by mig-setup for it (--if-supported): no layout is expected there.
bool passed_over(const mig::Gpu& gpu, const FoundStatus& status) {
  if (gpu.current != mig::Mode::unsupported || !status || !*status) return false;
  return std::any_of((*status)->gpus.begin(), (*status)->gpus.end(), [&](const mig::GpuStatus& last) {
    return last.bus_id == gpu.bus_id && last.state == "unsupported";
  });
}

std::string what_is_there(const mig::Seen& seen, unsigned gpu) {
  std::map<std::string, unsigned> counts;
  for (const mig::GpuInstance& instance : seen.gpu_instances) {
    if (instance.gpu == gpu) ++counts[instance.profile];
  }
  std::vector<std::string> parts;
  for (const auto& [profile, count] : counts) parts.push_back(profile + ":" + std::to_string(count));
  return parts.empty() ? "nothing" : base::join(parts, ",");
}

void check_layout(mig::Smi& smi, const std::vector<mig::Wanted>& wanted, const mig::Seen& seen, Findings& findings) {
  std::vector<std::string> wrong;
  std::optional<base::Result<mig::Boards>> boards;
  for (const mig::Wanted& want : wanted) {
    const mig::Gpu& gpu = want.gpu;
    if (want.layout.kind == mig::Layout::Kind::off) {
      if (!gpu.off()) wrong.push_back(gpu.show() + ": MIG is on (" + gpu.mode_words + "), wanted off");
      continue;
    }
    if (!gpu.on()) {
      wrong.push_back(gpu.show() + ": MIG mode is " + gpu.mode_words + ", wanted " + want.layout.show());
      continue;
    }
    auto resolved = mig::resolve(want.layout, mig::names_of(seen.gpu_instances, gpu.index), gpu.show());
    if (!resolved) {
      // A wanted profile is not there: does the driver know it at all?
      if (!boards) boards = smi.boards();
      if (!*boards) {
        wrong.push_back(gpu.show() + " has " + what_is_there(seen, gpu.index) + ", wanted " + want.layout.show());
        continue;
      }
      const auto board = (*boards)->find(gpu.index);
      if (board != (*boards)->end()) resolved = mig::resolve(want.layout, mig::names_of(board->second), gpu.show());
    }
    if (!resolved) {
      wrong.push_back(resolved.error().what);
      continue;
    }
    const mig::Standing standing = mig::compare(*resolved, seen.gpu_instances, seen.compute_instances, gpu.index);
    if (standing.verdict != mig::Standing::Verdict::right) wrong.push_back(gpu.show() + " " + standing.why);
  }
  if (wrong.empty()) {
    findings.ok(subject, "layout", "as wanted on " + std::to_string(wanted.size()) + " GPUs");
  } else {
    findings.fail(subject, "layout", base::join(wrong, "; "),
                  "run `gpu-prolog mig-setup` with the layout before slurmd (drain the node first)");
  }
}

void check_caps(Context& context, const std::vector<mig::Gpu>& gpus, const mig::Seen& seen, Findings& findings) {
  const auto missing = mig::missing_caps(context.host.files, gpus, seen.gpu_instances);
  if (missing.empty()) {
    findings.ok(subject, "caps files", "every instance has its files in " + std::string(site::caps_dir));
    return;
  }
  std::vector<std::string> few(missing.begin(),
                               missing.begin() + static_cast<std::ptrdiff_t>(std::min<std::size_t>(missing.size(), 4)));
  findings.warn(subject, "caps files",
                std::to_string(missing.size()) + " are missing or wrong: " + base::join(few, ", ") +
                    (missing.size() > few.size() ? ", ..." : "") +
                    ": slurmd skips these devices, jobs cannot open them",
                "remove those that are wrong; `nvidia-smi -L` as root makes them; then start slurmd anew");
}

// On boards with NVSwitches CUDA fails on MIG devices as well while the Fabric Manager does not run (error 802).
void check_fabric_manager(Context& context, Findings& findings) {
  const auto switches = mig::pci_switches(context.host.files);
  if (switches.empty()) {
    findings.skip(subject, "fabric manager", "no NVSwitch on the PCI bus");
    return;
  }
  if (mig::runs(context.host.files, "nv-fabricmanager")) {
    findings.ok(subject, "fabric manager", "runs");
  } else {
    findings.warn(subject, "fabric manager",
                  "there are NVSwitches (" + switches.front() +
                      "), but nv-fabricmanager does not run: CUDA fails with 'system not yet initialized'",
                  "systemctl enable --now nvidia-fabricmanager");
  }
}

// What a job could ask for against what exists, by slurmd's own matching.
void check_match(const std::string& check, const std::string& where, const std::vector<mig::GresEntry>& configured,
                 const std::vector<mig::DeviceCount>& devices, Findings& findings) {
  const mig::Match match = mig::match(configured, devices);
  std::vector<std::string> wrong = match.wrong;
  for (std::size_t i = 0; i < configured.size(); ++i) {
    if (match.got[i].count < configured[i].count) {
      wrong.push_back("gpu:" + configured[i].type + " has " + std::to_string(match.got[i].count) + " of " +
                      std::to_string(configured[i].count) + " devices");
    }
  }
  const mig::Gres should = mig::gres_for(devices);
  const std::string cure = "set Gres=" + mig::gres_text(should.entries) +
                           " (mig-setup --print=aws-cli prints the call), then have the node register again";
  if (!wrong.empty()) {
    findings.fail(subject, check,
                  where + ": " + base::join(wrong, ", ") +
                      (match.ignored.empty() ? "" : "; no entry for " + base::join(match.ignored, ", ")),
                  cure);
  } else if (!match.ignored.empty()) {
    findings.fail(subject, check,
                  where + " (" + mig::gres_text(configured) + ") has no room for " + base::join(match.ignored, ", ") +
                      ": Slurm ignores these devices",
                  cure);
  } else {
    findings.ok(subject, check, where + ": " + mig::gres_text(configured));
  }
}

template <typename Counted>
unsigned count(const std::vector<Counted>& all) {
  unsigned sum = 0;
  for (const Counted& one : all) sum += one.count;
  return sum;
}

void check_slurm(Context& context, const std::vector<mig::DeviceCount>& devices, Findings& findings) {
  const host::Host& host = context.host;
  const auto scontrol = find_scontrol(context);
  if (!scontrol) {
    findings.skip(subject, "slurm gres", "no scontrol on this node");
    findings.skip(subject, "slurmd gres", "no slurmd beside scontrol on this node");
    return;
  }
  std::string name = host.environment.get_or("SLURMD_NODENAME", "");
  if (name.empty()) name = read_line(host.files, "/proc/sys/kernel/hostname");
  name = name.substr(0, name.find('.'));
  const host::Exit told = ask_slurm(context, *scontrol, {"-o", "show", "node", name});
  const auto record = answered(told) ? mig::parse_node_record(told.out, name) : std::nullopt;
  if (!answered(told)) {
    findings.add({subject, "slurm gres", judge_silence(told),
                  "`scontrol show node " + base::printable(name, 80) + "`: " + host::describe(told),
                  "see whether slurmctld answers (`scontrol ping`) and knows this node"});
  } else if (!record) {
    findings.skip(subject, "slurm gres",
                  "scontrol has no record of node " + base::printable(name, 80) + ": " + host::describe(told));
  } else {
    const auto configured = mig::parse_gres(record->gres);
    if (!configured) {
      findings.warn(subject, "slurm gres", "Gres=" + base::printable(record->gres, 200) + " cannot be read",
                    "look at `scontrol show node " + record->name + "`");
    } else if (configured->empty() && !devices.empty()) {
      findings.fail(
          subject, "slurm gres", "node " + record->name + " has no gpu in Gres=, this node has devices",
          "set Gres=" + mig::gres_text(mig::gres_for(devices).entries) + ", then have the node register again");
    } else {
      check_match("slurm gres", "Gres of node " + record->name, *configured, devices, findings);
    }
    if (record->reason.find("gres/gpu") != std::string::npos) {
      findings.fail(subject, "slurm state", "node " + record->name + " is " + record->state + ": " + record->reason,
                    "make the layout and Gres= equal, start slurmd anew, then `scontrol update NodeName=" +
                        record->name + " State=RESUME`");
    }
  }
  // slurmd beside it: <prefix>/bin/scontrol, <prefix>/sbin/slurmd. It prints nothing to anybody but root.
  const std::size_t bin = scontrol->rfind("/bin/");
  const std::string slurmd = bin == std::string::npos ? "" : scontrol->substr(0, bin) + "/sbin/slurmd";
  const auto tool = host::find_tool(host.files, "slurmd", {slurmd}, host.processes.is_root());
  if (slurmd.empty() || !tool || !host.processes.is_root()) {
    findings.skip(subject, "slurmd gres",
                  !host.processes.is_root() ? "slurmd -G answers root only" : "no slurmd beside " + *scontrol);
    return;
  }
  const host::Exit own = ask_slurm(context, *tool, {"-G"});
  const auto seen = mig::parse_slurmd_gres(own.out + "\n" + own.err);
  if (!answered(own)) {
    findings.add({subject, "slurmd gres", judge_silence(own), "`slurmd -G`: " + host::describe(own),
                  "run `" + *tool + " -G` by hand"});
  } else if (seen.entries.empty() && devices.empty()) {
    findings.skip(subject, "slurmd gres", "`slurmd -G` told of no gpu, and there is no device");
  } else if (seen.entries.empty()) {
    findings.fail(subject, "slurmd gres",
                  "slurmd sees none of " + std::to_string(count(devices)) + " devices: `slurmd -G` told of no gpu (" +
                      host::describe(own) + ")",
                  "see that gres.conf has AutoDetect=nvml, that this slurmd was built with NVML and finds "
                  "libnvidia-ml.so.1, and that Gres= of the node names a gpu; then start slurmd anew");
  } else if (const auto faults = mig::slurmd_faults(seen, devices); !faults.empty()) {
    findings.fail(subject, "slurmd gres",
                  "slurmd sees " + std::to_string(count(seen.entries)) + " of " + std::to_string(count(devices)) +
                      " devices (" + mig::gres_text(seen.entries) + "): " + base::join(faults, ", "),
                  "start slurmd anew after mig-setup; see `slurmd -G`");
  } else {
    findings.ok(subject, "slurmd gres", mig::gres_text(seen.entries));
  }
}

void check_slurmd_log(Context& context, Findings& findings) {
  const host::Host& host = context.host;
  std::string path = "/var/log/slurmd.log";
  std::string conf_path = host.environment.get_or("SLURM_CONF", "");
  if (conf_path.empty()) {
    for (std::string_view candidate : site::slurm_confs) {
      const auto there = host.files.status(std::string(candidate));
      if (there && *there) {
        conf_path = candidate;
        break;
      }
    }
  }
  if (!conf_path.empty()) {
    if (const auto conf = slurm::read_conf(host.files, conf_path)) path = conf->get("SlurmdLogFile").value_or(path);
  }
  const auto log = host.files.read(path, largest_log);
  if (!log) {
    findings.skip(subject, "slurmd log", log.error().what);
    return;
  }
  const auto found = mig::complaints(*log);
  if (found.empty()) {
    findings.ok(subject, "slurmd log", "no word of unusable GPUs since slurmd's last start in " + path);
  } else {
    findings.warn(subject, "slurmd log", base::join(found, "; "),
                  "make the layout and Gres= equal, then start slurmd anew");
  }
}

}  // namespace

bool mig_applies(Context& context, const ValidateMigOptions& options) {
  if (!options.layouts.empty() || !options.layout_file.empty() || options.gate) return true;
  if (const auto status = find_status(context); !status || *status) return true;
  const std::string capabilities = "/proc/driver/nvidia/capabilities";
  const auto gpus = context.host.files.list(capabilities);
  if (!gpus) return false;
  for (const std::string& gpu : *gpus) {
    const auto instances = context.host.files.list(capabilities + "/" + gpu + "/mig");
    if (!gpu.starts_with("gpu") || !instances) continue;
    if (std::any_of(instances->begin(), instances->end(),
                    [](const std::string& name) { return name.starts_with("gi"); }))
      return true;
  }
  return false;
}

base::Status validate_mig(Context& context, const ValidateMigOptions& options, Findings& findings) {
  const host::Host& host = context.host;
  if (options.gate) {
    check_gate(context, findings);
    return base::ok();
  }
  const LayoutWords words{options.layouts, options.layout_file, options.layout_name};
  std::optional<std::vector<mig::Rule>> rules;
  if (words.any()) {
    auto read = read_rules(host.files, words);
    if (!read) return read.error();
    rules = std::move(*read);
  }
  // Another nvidia-smi beside a change holds it up, and what it would tell is gone a moment later.
  if (const std::string worker = host.locks.holder(std::string(site::mig_lock)); !worker.empty()) {
    findings.fail(subject, "mig-setup", "mig-setup is at work (" + worker + "): the GPUs were not looked at",
                  "wait until it has ended, then run this again");
    return base::ok();
  }
  const FoundStatus status = find_status(context);
  check_status(context, status, rules.has_value(), findings);
  if (!rules && status && *status) {
    if (auto last = mig::rules_of(**status)) rules = std::move(*last);
  }

  const auto tool = find_nvidia_smi(context);
  if (!tool) {
    findings.fail(subject, "nvidia-smi", tool.error().what, tool.error().cure);
    return base::ok();
  }
  mig::Smi smi(host.processes, *tool, host::Deadline(host.clock, site::smi_query_limit * 3));
  const mig::Smi::Gpus found = smi.gpus(site::smi_query_limit);
  if (found.answer != mig::Answer::ok) {
    findings.fail(subject, "driver", "the NVIDIA driver gives no usable answer: " + found.error.what, found.error.cure);
    return base::ok();
  }
  const std::vector<mig::Gpu>& gpus = found.gpus;
  check_bus(gpus, mig::pci_gpus(host.files), findings);
  check_mode(context, gpus, findings);
  std::vector<mig::Wanted> wanted;
  if (rules) {
    auto selected = mig::select(*rules, gpus);
    if (selected) {
      for (mig::Wanted& want : *selected) {
        if (!passed_over(want.gpu, status)) wanted.push_back(std::move(want));
      }
      if (wanted.empty()) findings.skip(subject, "layout", "mig-setup passed over every GPU, none has MIG");
    } else {
      findings.fail(subject, "layout", selected.error().what, selected.error().cure);
    }
  }
  mig::Seen seen;
  if (std::any_of(gpus.begin(), gpus.end(), [](const mig::Gpu& gpu) { return gpu.current == mig::Mode::enabled; })) {
    auto looked = smi.seen();
    if (!looked) {
      findings.fail(subject, "instances", looked.error().what, looked.error().cure);
      return base::ok();
    }
    seen = std::move(*looked);
    check_instances(gpus, seen, wanted, findings);
    check_caps(context, gpus, seen, findings);
  } else {
    findings.skip(subject, "instances", "MIG is on on no GPU");
  }
  if (!wanted.empty()) {
    check_layout(smi, wanted, seen, findings);
  } else if (!rules) {
    findings.skip(subject, "layout", "no layout to compare with: give --layout");
  }
  check_fabric_manager(context, findings);
  check_slurm(context, mig::devices_of(gpus, seen.gpu_instances), findings);
  check_slurmd_log(context, findings);
  return base::ok();
}

}  // namespace commands
