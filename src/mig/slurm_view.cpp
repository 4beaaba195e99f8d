#include "mig/slurm_view.h"

#include <algorithm>
#include <array>

#include "base/text.h"
#include "mig/profiles.h"

namespace mig {

namespace {

constexpr std::array<std::string_view, 5> phrases{
    "Discarding the following config-only GPU due to lack of File specification",
    "The following autodetected GPUs are being ignored", "MIG mode is enabled, but no MIG devices were found",
    "Insufficient Size", "We were configured with nvml functionality, but that lib wasn't found"};

}  // namespace

std::optional<NodeRecord> parse_node_record(std::string_view text, std::string_view name) {
  std::vector<NodeRecord> records;
  std::optional<NodeRecord> own;
  for (std::string_view line : base::each_line(text)) {
    if (!line.starts_with("NodeName=")) continue;
    NodeRecord record;
    std::string host_name;
    for (std::string_view word : base::words(line)) {
      const std::size_t equals = word.find('=');
      if (equals == std::string_view::npos) continue;
      const std::string_view key = word.substr(0, equals);
      const std::string value(word.substr(equals + 1));
      // A person's text ends the record for us: it could forge any key.
      if (key == "Comment" || key == "Extra") break;
      if (key == "NodeName") record.name = value;
      if (key == "NodeHostName") host_name = value;
      if (key == "Gres" && record.gres.empty()) record.gres = value;
      if (key == "State" && record.state.empty()) record.state = value;
      if (key == "Reason") {
        record.reason = base::printable(line.substr(line.find("Reason=") + 7), 300);
        break;
      }
    }
    if (record.name == name || host_name == name) own = record;
    records.push_back(std::move(record));
  }
  if (own) return own;
  if (records.size() == 1) return records.front();
  return std::nullopt;
}

namespace {

void add(std::vector<GresEntry>& entries, const GresEntry& entry) {
  const auto same =
      std::find_if(entries.begin(), entries.end(), [&](const GresEntry& other) { return other.type == entry.type; });
  if (same == entries.end()) {
    entries.push_back(entry);
  } else {
    same->count += entry.count;
  }
}

bool names_mig(std::string_view type) {
  const std::size_t last = type.rfind('_');
  return parse_shape(last == std::string_view::npos ? type : type.substr(last + 1)).has_value();
}

}  // namespace

SlurmdGres parse_slurmd_gres(std::string_view text) {
  SlurmdGres seen;
  for (std::string_view line : base::each_line(text)) {
    const std::size_t at = line.find("Gres Name=gpu");
    if (at == std::string_view::npos) continue;
    GresEntry entry{"", 1};
    bool has_file = false;
    bool is_mig = false;
    for (std::string_view word : base::words(line.substr(at))) {
      if (word.starts_with("Type=")) entry.type = base::printable(word.substr(5), 100);
      if (word.starts_with("Count=")) {
        if (const auto count = base::parse_number(word.substr(6)); count && *count < 100'000)
          entry.count = static_cast<unsigned>(*count);
      }
      if (word.starts_with("File=/dev/nvidia")) has_file = true;
      if (word.starts_with("File=") && word.find("/nvidia-cap") != std::string_view::npos) is_mig = true;
    }
    if (entry.type == "(null)") entry.type.clear();
    add(seen.entries, entry);
    add(has_file && !is_mig && !names_mig(entry.type) ? seen.whole : seen.rest, entry);
  }
  return seen;
}

std::vector<std::string> slurmd_faults(const SlurmdGres& seen, const std::vector<DeviceCount>& devices) {
  std::vector<DeviceCount> whole_gpus;
  std::vector<DeviceCount> others;
  for (const DeviceCount& device : devices)
    (device.profile.empty() && !seen.whole.empty() ? whole_gpus : others).push_back(device);

  std::vector<std::string> faults;
  const auto compare_with = [&](const std::vector<GresEntry>& entries, const std::vector<DeviceCount>& there,
                                const std::string& kind) {
    const Match match = mig::match(entries, there);
    for (std::size_t i = 0; i < entries.size(); ++i) {
      if (match.got[i].count >= entries[i].count) continue;
      faults.push_back(gres_text({entries[i]}) + kind + ", of which " + std::to_string(match.got[i].count) + " exist");
    }
    faults.insert(faults.end(), match.wrong.begin(), match.wrong.end());
    for (const std::string& missing : match.ignored) faults.push_back(missing + " is not in it");
  };
  compare_with(seen.whole, whole_gpus, " (whole GPUs)");
  compare_with(seen.rest, others, "");
  return faults;
}

std::vector<std::string> complaints(std::string_view log) {
  std::vector<std::string> found;
  const auto lines = base::lines(log);
  std::size_t begin = 0;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (lines[i].find("slurmd version ") != std::string_view::npos &&
        lines[i].find(" started") != std::string_view::npos)
      begin = i;
  }
  // GPUs are looked for before "slurmd version ... started" is logged as well as after a reconfigure: the lines of the
  // last start are those since the stop before it.
  std::size_t from = 0;
  for (std::size_t i = 0; i < begin; ++i) {
    if (lines[i].find("Slurmd shutdown completing") != std::string_view::npos ||
        (lines[i].find("slurmd version ") != std::string_view::npos && i < begin))
      from = i;
  }
  for (std::size_t i = from; i < lines.size(); ++i) {
    for (std::string_view phrase : phrases) {
      if (lines[i].find(phrase) == std::string_view::npos) continue;
      const std::string text = base::printable(base::trim(lines[i]), 200);
      if (std::none_of(found.begin(), found.end(),
                       [&](const std::string& other) { return other.find(phrase) != std::string::npos; }))
        found.push_back(text);
    }
  }
  return found;
}

}  // namespace mig
