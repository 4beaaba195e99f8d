#include "mig/holders.h"

#include <algorithm>
#include <array>

#include "base/text.h"

namespace mig {

namespace {

constexpr std::array<std::string_view, 6> services{"nvidia-persistenced", "nv-fabricmanager", "nv-hostengine",
                                                   "nvidia-imex",         "nvsm_core",        "nvlsm"};

bool is_pid(const std::string& name) { return base::parse_number(name).has_value() && name.size() < 10; }

std::string base_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

// The executable, with the kernel's mark of a replaced file taken off.
std::string executable(const host::Files& files, const std::string& pid) {
  const auto link = files.read_link("/proc/" + pid + "/exe");
  if (!link) return "";
  std::string path = *link;
  constexpr std::string_view mark = " (deleted)";
  if (path.ends_with(mark)) path.resize(path.size() - mark.size());
  return path;
}

// A GPU's own node or one of its capabilities. /dev/nvidiactl is held by whoever asks for a version.
bool is_gpu_file(const std::string& path) {
  const std::size_t at = path.rfind("/dev/nvidia");
  if (at == std::string::npos) return false;
  const std::string rest = path.substr(at + 11);
  if (rest.starts_with("-caps/nvidia-cap")) return true;
  return !rest.empty() && rest.find_first_not_of("0123456789") == std::string::npos;
}

std::vector<std::string> pci_functions(const host::Files& files, const std::vector<std::string>& classes) {
  std::vector<std::string> found;
  const auto devices = files.list("/sys/bus/pci/devices");
  if (!devices) return found;
  for (const std::string& device : *devices) {
    const std::string folder = "/sys/bus/pci/devices/" + device;
    const auto vendor = files.read(folder + "/vendor", 64);
    if (!vendor || base::trim(*vendor) != "0x10de") continue;
    const auto device_class = files.read(folder + "/class", 64);
    if (!device_class) continue;
    for (const std::string& wanted : classes) {
      if (base::trim(*device_class).starts_with(wanted)) {
        found.push_back(device);
        break;
      }
    }
  }
  return found;
}

}  // namespace

std::vector<Holder> find_holders(const host::Files& files, pid_t self) {
  std::vector<Holder> holders;
  const auto processes = files.list("/proc");
  if (!processes) return holders;
  for (const std::string& pid : *processes) {
    if (!is_pid(pid) || pid == std::to_string(self)) continue;
    const auto open = files.list("/proc/" + pid + "/fd");
    if (!open) continue;
    Holder holder;
    for (const std::string& fd : *open) {
      const auto target = files.read_link("/proc/" + pid + "/fd/" + fd);
      if (!target || !is_gpu_file(*target)) continue;
      if (std::find(holder.files.begin(), holder.files.end(), *target) == holder.files.end())
        holder.files.push_back(*target);
    }
    if (holder.files.empty()) continue;
    std::sort(holder.files.begin(), holder.files.end());
    holder.pid = static_cast<pid_t>(*base::parse_number(pid));
    holder.program = base_name(executable(files, pid));
    if (holder.program.empty()) {
      const auto name = files.read("/proc/" + pid + "/comm", 4096);
      holder.program = name ? base::printable(base::trim(*name), 60) : "a process";
    }
    holders.push_back(std::move(holder));
  }
  std::sort(holders.begin(), holders.end(), [](const Holder& a, const Holder& b) { return a.pid < b.pid; });
  return holders;
}

bool is_service(const Holder& holder) {
  return std::find(services.begin(), services.end(), holder.program) != services.end();
}

std::vector<std::string> module_holders(const host::Files& files) {
  std::vector<std::string> modules;
  if (const auto names = files.list("/sys/module/nvidia/holders")) {
    for (const std::string& name : *names) {
      // These two belong to the driver and let go by themselves; nvidia_drm with its display does not.
      if (name != "nvidia_uvm" && name != "nvidia_modeset") modules.push_back(base::printable(name, 60));
    }
  }
  return modules;
}

std::string show(const Holder& holder) {
  std::vector<std::string> few(
      holder.files.begin(),
      holder.files.begin() + static_cast<std::ptrdiff_t>(std::min<std::size_t>(holder.files.size(), 3)));
  return base::printable(holder.program, 60) + " (pid " + std::to_string(holder.pid) + ": " +
         base::printable(base::join(few, " "), 160) + ")";
}

std::string show_holders(const std::vector<Holder>& holders, const std::vector<std::string>& modules,
                         const std::vector<Gpu>& gpus) {
  std::vector<std::string> parts;
  for (const Holder& holder : holders) {
    if (parts.size() == 8) {
      parts.push_back("and " + std::to_string(holders.size() - 8) + " more processes");
      break;
    }
    parts.push_back(show(holder));
  }
  for (const std::string& module : modules) parts.push_back("kernel module " + module);
  std::vector<std::string> persistent;
  for (const Gpu& gpu : gpus) {
    if (gpu.persistence) persistent.push_back(std::to_string(gpu.index));
  }
  if (!persistent.empty()) parts.push_back("persistence mode on GPU " + base::join(persistent, ","));
  return parts.empty() ? "nobody that can be seen" : base::join(parts, ", ");
}

std::vector<std::string> slurm_daemons(const host::Files& files, pid_t self) {
  std::vector<std::string> found;
  const auto processes = files.list("/proc");
  if (!processes) return found;
  for (const std::string& pid : *processes) {
    if (!is_pid(pid) || pid == std::to_string(self)) continue;
    const std::string name = base_name(executable(files, pid));
    if (name == "slurmd" || name == "slurmstepd") found.push_back(name + " (pid " + pid + ")");
  }
  return found;
}

bool runs(const host::Files& files, std::string_view program) {
  const auto processes = files.list("/proc");
  if (!processes) return false;
  return std::any_of(processes->begin(), processes->end(), [&](const std::string& pid) {
    return is_pid(pid) && base_name(executable(files, pid)) == program;
  });
}

std::vector<std::string> pci_gpus(const host::Files& files) { return pci_functions(files, {"0x0300", "0x0302"}); }

std::vector<std::string> pci_switches(const host::Files& files) { return pci_functions(files, {"0x0680"}); }

std::string boot_finished(const host::Files& files) {
  const auto there = [&](const std::string& path) {
    const auto status = files.status(path);
    return status && status->has_value();
  };
  if (there("/run/cloud-init/result.json")) return "cloud-init is done: /run/cloud-init/result.json";
  if (const auto sessions = files.list("/run/systemd/sessions")) {
    for (const std::string& session : *sessions) {
      if (!session.ends_with(".ref")) return "somebody is logged in: /run/systemd/sessions";
    }
  }
  return "";
}

}  // namespace mig
