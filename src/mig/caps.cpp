#include "mig/caps.h"

#include "base/text.h"
#include "site/site.h"

namespace mig {

std::map<std::string, unsigned> parse_mig_minors(std::string_view text) {
  std::map<std::string, unsigned> minors;
  for (std::string_view line : base::each_line(text)) {
    const auto words = base::words(line);
    if (words.size() != 2) continue;
    const auto number = base::parse_number(words[1]);
    if (number && *number < 1'000'000) minors[std::string(words[0])] = static_cast<unsigned>(*number);
  }
  return minors;
}

unsigned device_minor(const host::Files& files, const Gpu& gpu) {
  const auto canonical = canonical_bus_id(gpu.bus_id);
  if (!canonical) return gpu.index;
  const std::size_t colon = canonical->find(':');
  std::string domain = canonical->substr(0, colon);
  if (domain.size() < 4) domain.insert(0, 4 - domain.size(), '0');
  const auto text =
      files.read("/proc/driver/nvidia/gpus/" + domain + canonical->substr(colon) + "/information", 65'536);
  if (!text) return gpu.index;
  for (std::string_view line : base::each_line(*text)) {
    constexpr std::string_view key = "Device Minor:";
    if (!line.starts_with(key)) continue;
    if (const auto number = base::parse_number(base::trim(line.substr(key.size()))); number && *number < 4096)
      return static_cast<unsigned>(*number);
  }
  return gpu.index;
}

std::optional<unsigned> caps_major(const host::Files& files) {
  const auto text = files.read(std::string(site::proc_devices), 1U << 20U);
  if (!text) return std::nullopt;
  for (std::string_view line : base::each_line(*text)) {
    const auto words = base::words(line);
    if (words.size() != 2 || words[1] != site::caps_driver) continue;
    if (const auto number = base::parse_number(words[0]); number && *number < 1'000'000)
      return static_cast<unsigned>(*number);
  }
  return std::nullopt;
}

std::vector<std::string> missing_caps(const host::Files& files, const std::vector<Gpu>& gpus,
                                      const std::vector<GpuInstance>& instances) {
  std::vector<std::string> missing;
  const auto text = files.read(std::string(site::mig_minors), 8U << 20U);
  if (!text) return missing;
  const auto minors = parse_mig_minors(*text);
  const auto major = caps_major(files);
  for (const GpuInstance& instance : instances) {
    const Gpu* gpu = find_by_index(gpus, instance.gpu);
    if (gpu == nullptr) continue;
    const std::string prefix = "gpu" + std::to_string(device_minor(files, *gpu)) + "/gi" + std::to_string(instance.id);
    for (const std::string& name : {prefix + "/access", prefix + "/ci0/access"}) {
      const auto minor = minors.find(name);
      if (minor == minors.end()) continue;
      const std::string path = std::string(site::caps_dir) + "/nvidia-cap" + std::to_string(minor->second);
      const auto status = files.status(path);
      if (!status || !*status || (*status)->kind != host::FileStatus::Kind::char_device) {
        missing.push_back(path + " (" + name + ")");
        continue;
      }
      const unsigned is_major = (*status)->device_major;
      const unsigned is_minor = (*status)->device_minor;
      if ((!major || is_major == *major) && is_minor == minor->second) continue;
      missing.push_back(path + " (" + name + ": it is device " + std::to_string(is_major) + ":" +
                        std::to_string(is_minor) + ", not " + (major ? std::to_string(*major) : "*") + ":" +
                        std::to_string(minor->second) + ")");
    }
  }
  return missing;
}

}  // namespace mig
