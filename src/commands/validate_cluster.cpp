#include "commands/validate_cluster.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>

#include "base/build_info.h"
#include "base/duration.h"
#include "base/text.h"
#include "commands/ask_tool.h"
#include "commands/imex_run.h"
#include "commands/validate_imex.h"
#include "host/trusted_tool.h"
#include "site/site.h"
#include "slurm/block_source.h"
#include "slurm/conf.h"
#include "slurm/scontrol.h"
#include "slurm/slurm_version.h"

namespace commands {

using flow::Findings;

namespace {

using namespace std::chrono_literals;

const std::string subject = "cluster";
constexpr std::size_t largest_program = 64U << 20U;

// slurm.conf of the node, or what scontrol tells of the controller's: the same questions to both.
struct Settings {
  std::function<std::vector<std::string>(const std::string& key)> all;  // in order; "(null)" is none
  std::string source;
  std::shared_ptr<const slurm::Conf> conf;  // where that is the source

  std::string get(const std::string& key) const {
    const auto values = all(key);
    return values.empty() ? "" : values.back();
  }
  bool has_word(const std::string& key, const std::string& word) const {
    const std::string value = get(key);  // the parts are views into it
    for (const std::string_view part : base::split(value, ',')) {
      if (base::equals_ignoring_case(base::trim(part), word)) return true;
    }
    return false;
  }
  // Seconds of "10 sec", "10"; nothing for no limit.
  std::optional<site::milliseconds> seconds(const std::string& key) const {
    const std::string text = get(key);
    const auto words = base::words(text);
    const auto number = words.empty() ? std::nullopt : base::parse_number(words.front());
    if (!number || *number == 0 || *number >= 65'534) return std::nullopt;
    return site::milliseconds(*number * 1000);
  }
};

Settings from_conf(slurm::Conf read) {
  Settings settings;
  settings.conf = std::make_shared<const slurm::Conf>(std::move(read));
  settings.source = settings.conf->path;
  settings.all = [conf = settings.conf](const std::string& key) { return conf->all(key); };
  return settings;
}

Settings from_show_config(const std::map<std::string, std::string>& shown) {
  Settings settings;
  settings.source = "scontrol show config";
  settings.all = [shown](const std::string& key) {
    std::vector<std::string> values;
    const std::string wanted = base::lower(key);
    for (const auto& [name, value] : shown) {
      const bool matches = name == wanted || (name.starts_with(wanted + "[") && name.ends_with(']'));
      if (matches && value != "(null)" && !value.empty()) values.push_back(value);
    }
    return values;
  };
  return settings;
}

void check_version(Context& context, const std::string& scontrol, bool with_imex, bool with_mig, Findings& findings) {
  const host::Exit told = ask_slurm(context, scontrol, {"--version"});
  const std::string version = answered(told) ? slurm::parse_version(told.out) : "";
  if (!answered(told)) {
    findings.add({subject, "slurm version", judge_silence(told), "scontrol --version: " + host::describe(told),
                  "see " + scontrol});
    return;
  }
  if (version.empty()) {
    findings.warn(subject, "slurm version", "scontrol --version told none", "see " + scontrol);
    return;
  }
  if (with_mig && base::compare_versions(version, "25.11") < 0) {
    findings.fail(subject, "slurm version", "Slurm " + version + " is older than 25.11, which MIG on AWS PCS needs",
                  "update the cluster");
  } else if (with_imex && base::compare_versions(version, "25.05") < 0) {
    findings.fail(subject, "slurm version", "Slurm " + version + " is older than 25.05, which IMEX on AWS PCS needs",
                  "update the cluster");
  } else {
    findings.ok(subject, "slurm version", version);
  }
}

// What the kernel says when it cannot start a program of another architecture helps nobody at night.
std::string elf_architecture(const std::string& head) {
  if (head.size() < 20 || head.compare(0, 4, "\177ELF") != 0) return "";
  const unsigned machine =
      static_cast<unsigned char>(head[18]) | static_cast<unsigned>(static_cast<unsigned char>(head[19])) << 8U;
  if (machine == 62) return "x86_64";
  return machine == 183 ? "aarch64" : "machine " + std::to_string(machine);
}

std::vector<std::string> expand_glob(Context& context, const std::string& path) {
  const std::size_t slash = path.rfind('/');
  const std::string last = slash == std::string::npos ? path : path.substr(slash + 1);
  if (last.find_first_of("*?[") == std::string::npos) return {path};
  std::vector<std::string> found;
  const auto names = context.host.files.list(path.substr(0, slash));
  if (!names || last != "*") return found;
  for (const std::string& name : *names) {
    if (!name.starts_with('.')) found.push_back(path.substr(0, slash + 1) + name);
  }
  return found;
}

void check_program(Context& context, const std::string& key, const std::string& path, Findings& findings) {
  const std::string what = key + "=" + path;
  if (!path.starts_with('/')) {
    findings.fail(subject, base::lower(key) + " path",
                  what + " is no absolute path; in configless mode Slurm would send its text, which truncates a binary",
                  "give the absolute path of gpu-prolog");
    return;
  }
  const auto checked = host::check_tool(context.host.files, path, true);
  if (!checked) {
    findings.fail(subject, base::lower(key) + " path", what + ": " + checked.error().what,
                  "install the file on this node, root's, mode 0755, in folders that only root can write");
    return;
  }
  const auto status = context.host.files.status(*checked);
  if (!status || !*status || ((*status)->permissions & 0555U) != 0555U) {
    findings.fail(subject, base::lower(key) + " path", what + " is not readable and executable (slurmd needs both)",
                  "chmod 0755 " + *checked);
    return;
  }
  const auto content = context.host.files.read(*checked, largest_program);
  const std::string architecture = content ? elf_architecture(*content) : "";
  const std::string own(base::build_info().architecture);
  if (!architecture.empty() && architecture != own) {
    findings.fail(subject, base::lower(key) + " path", what + " is built for " + architecture + ", this node is " + own,
                  "install the " + own + " build");
    return;
  }
  findings.ok(subject, base::lower(key) + " path", what);
}

void check_programs(Context& context, const std::string& key, const std::vector<std::string>& paths,
                    Findings& findings) {
  for (const std::string& path : paths) {
    const auto programs = expand_glob(context, path);
    if (programs.empty())
      findings.fail(subject, base::lower(key) + " path",
                    key + "=" + path + " matches no file: every job would fail and drain its nodes",
                    "install the program at that path on every node");
    for (const std::string& program : programs) check_program(context, key, program, findings);
  }
}

void check_flags(const Settings& settings, bool with_imex, Findings& findings) {
  const std::string flags = settings.get("PrologFlags");
  const auto has = [&](const std::string& flag) { return settings.has_word("PrologFlags", flag); };
  const bool alloc =
      has("Alloc") || has("NoHold") || has("Contain") || has("X11") || has("RunInJob") || has("ForceRequeueOnFail");
  const std::string what = "PrologFlags=" + (flags.empty() ? std::string("(none)") : base::printable(flags, 100));
  if (with_imex && !alloc) {
    findings.fail(subject, "prolog flags", what + " has no Alloc: a node without a step would never run the prolog",
                  "PrologFlags=Alloc,DeferBatch");
  } else if (has("NoHold") && (has("Contain") || has("X11"))) {
    findings.fail(subject, "prolog flags", what + ": NoHold does not go with Contain or X11, slurmctld refuses it",
                  "PrologFlags=Alloc,DeferBatch");
  } else if (has("NoHold") && has("DeferBatch")) {
    findings.warn(
        subject, "prolog flags",
        what + ": with NoHold DeferBatch never acts, batch scripts start while other nodes are still in their prolog",
        "PrologFlags=Alloc,DeferBatch");
  } else {
    findings.ok(subject, "prolog flags", what);
  }
  if (has("RunInJob")) {
    findings.warn(
        subject, "prolog in job",
        what +
            ": RunInJob runs the prolog in the job's cgroup, whose device limits can keep it from making the channel",
        "leave out RunInJob");
  }
}

void check_times(const Settings& settings, bool with_imex, Findings& findings) {
  auto limit = settings.seconds("PrologTimeout");
  std::string key = "PrologTimeout";
  if (!limit) {
    limit = settings.seconds("PrologEpilogTimeout");
    key = "PrologEpilogTimeout";
  }
  if (!limit) {
    findings.ok(subject, "prolog time",
                "no limit of Slurm's; gpu-prolog ends within " + base::show_duration(site::deadline));
  } else if (*limit < site::deadline + site::deadline_margin) {
    findings.fail(subject, "prolog time",
                  key + "=" + base::show_duration(*limit) + " is below the " + base::show_duration(site::deadline) +
                      " that imex-prolog may need; slurmd would cut it short (KILL, node drained)",
                  "PrologEpilogTimeout=" + std::to_string((site::deadline + site::deadline_margin).count() / 1000) +
                      " or more; until then gpu-prolog ends 5 s before Slurm's limit");
  } else {
    findings.ok(subject, "prolog time", key + "=" + base::show_duration(*limit));
  }
  if (!with_imex) return;
  const auto message = settings.seconds("MessageTimeout").value_or(10s);
  if (message < 30s) {
    findings.warn(subject, "message timeout",
                  "MessageTimeout=" + base::show_duration(message) +
                      ": Slurm tells users \"Prolog hung\" after this time less 2 s",
                  "MessageTimeout=240");
  } else {
    findings.ok(subject, "message timeout", "MessageTimeout=" + base::show_duration(message));
  }
}

bool shares_by_force(const std::string& value) {
  const auto parts = base::split(value, ':');
  if (parts.empty() || !base::equals_ignoring_case(parts.front(), "FORCE")) return false;
  return parts.size() < 2 || base::parse_number(parts[1]).value_or(4) > 1;
}

void check_sharing(const Settings& settings, Findings& findings) {
  const std::string mode = settings.get("PreemptMode");
  if (base::contains_ignoring_case(mode, "SUSPEND") || base::contains_ignoring_case(mode, "GANG")) {
    findings.warn(subject, "preemption",
                  "PreemptMode=" + base::printable(mode, 60) +
                      ": a suspended exclusive job keeps its nodes while another one runs on them",
                  "PreemptMode=REQUEUE or OFF on GPU partitions");
  } else {
    findings.ok(subject, "preemption",
                "PreemptMode=" + (mode.empty() ? std::string("OFF") : base::printable(mode, 60)));
  }
  if (!settings.conf) return;
  for (const auto& [name, oversubscribe] : settings.conf->of_partitions("OverSubscribe")) {
    if (!shares_by_force(oversubscribe)) continue;
    findings.warn(subject, "sharing",
                  "partition " + base::printable(name, 60) + " has OverSubscribe=" +
                      base::printable(oversubscribe, 40) + ": no job is exclusive there, IMEX is never made",
                  "OverSubscribe=EXCLUSIVE or NO");
  }
}

void check_topology(Context& context, const Settings& settings, Findings& findings) {
  const std::string plugin = base::printable(settings.get("TopologyPlugin"), 60);
  const bool is_block = base::contains_ignoring_case(plugin, "block");
  if (settings.conf) {
    const auto file = slurm::read_topology_file(context.host.files, *settings.conf, "");
    if (!file) {
      findings.warn(subject, "topology", "topology.yaml is of no use: " + file.error().what,
                    "correct topology.yaml; until then imex-prolog asks `scontrol show topology` for every job");
      return;
    }
    if (*file) {
      findings.ok(subject, "topology", "topology.yaml is there");
      return;
    }
  }
  if (is_block) {
    findings.ok(subject, "topology", "TopologyPlugin=" + plugin);
  } else {
    findings.warn(subject, "topology",
                  "TopologyPlugin=" + (plugin.empty() ? std::string("(none)") : plugin) +
                      ": Slurm does not know which nodes share an UltraServer",
                  "TopologyPlugin=topology/block with a block for each UltraServer");
  }
}

}  // namespace

void validate_cluster(Context& context, Findings& findings) {
  const host::Host& host = context.host;
  const auto scontrol = find_scontrol(context);
  auto conf = find_conf(context);
  Settings settings;
  if (conf) {
    settings = from_conf(std::move(*conf));
  } else if (scontrol) {
    const host::Exit told = ask_slurm(context, *scontrol, {"show", "config"});
    const auto shown = slurm::parse_show_config(answered(told) ? told.out : "");
    if (shown.empty()) {
      findings.fail(subject, "settings",
                    "neither slurm.conf nor `scontrol show config` can be read: " +
                        (answered(told) ? "it printed no setting" : host::describe(told)),
                    "see whether slurmd runs on this node and the controller answers");
      return;
    }
    settings = from_show_config(shown);
  } else {
    findings.fail(subject, "settings", "no slurm.conf and no scontrol on this node: " + scontrol.error().what,
                  scontrol.error().cure);
    return;
  }
  findings.ok(subject, "settings", "read from " + settings.source);

  const bool with_imex = imex_applies(context);
  const auto mig_status = host.files.status(std::string(site::mig_status_lib));
  const bool with_mig = mig_status && *mig_status;
  if (scontrol) {
    check_version(context, *scontrol, with_imex, with_mig, findings);
  } else {
    findings.fail(subject, "slurm version", scontrol.error().what, scontrol.error().cure);
  }
  const auto prologs = settings.all("Prolog");
  const auto epilogs = settings.all("Epilog");
  if (prologs.empty() && with_imex)
    findings.fail(subject, "prolog", "no Prolog is set: nothing makes IMEX domains",
                  "Prolog=/opt/gpu-prolog/gpu-prolog");
  if (epilogs.empty() && with_imex)
    findings.fail(subject, "epilog",
                  "no Epilog is set: the daemon keeps the last job's domain, which blocks the next one (!M!)",
                  "Epilog=/opt/gpu-prolog/gpu-prolog");
  check_programs(context, "Prolog", prologs, findings);
  check_programs(context, "Epilog", epilogs, findings);
  check_flags(settings, with_imex, findings);
  check_times(settings, with_imex, findings);
  if (!settings.has_word("SchedulerParameters", "nohold_on_prolog_fail")) {
    findings.warn(subject, "hold on failure",
                  "SchedulerParameters has no nohold_on_prolog_fail: a job whose prolog failed is requeued but held",
                  "SchedulerParameters=nohold_on_prolog_fail");
  } else {
    findings.ok(subject, "hold on failure", "a job whose prolog failed is requeued without a hold");
  }
  check_sharing(settings, findings);
  if (with_imex) check_topology(context, settings, findings);
  if (with_imex && findings.exit_code(true) != 0) {
    findings.attach(
        "lines for slurm.conf (custom settings of the cluster in AWS PCS):\n  Prolog=/opt/gpu-prolog/gpu-prolog\n  "
        "Epilog=/opt/gpu-prolog/gpu-prolog\n  PrologFlags=Alloc,DeferBatch\n");
  }
}

}  // namespace commands
