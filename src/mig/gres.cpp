#include "mig/gres.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "mig/profiles.h"

namespace mig {

using base::Error;
using base::ExitCode;

const std::string_view aws_note =
    "update-compute-node-group may replace the lists gresCustomSettings and slurmCustomSettings as a whole: look at "
    "the existing "
    "ones first with `aws pcs get-compute-node-group --cluster-identifier my-cluster --compute-node-group-identifier "
    "my-cng-1 "
    "--query computeNodeGroup.slurmConfiguration` and add their entries";

std::vector<DeviceCount> devices_of(const std::vector<Gpu>& gpus, const std::vector<GpuInstance>& instances) {
  std::map<std::pair<std::string, std::string>, unsigned> counts;
  for (const Gpu& gpu : gpus) {
    if (gpu.current == Mode::disabled || gpu.current == Mode::unsupported) ++counts[{gpu.name, ""}];
    for (const GpuInstance& instance : instances) {
      if (instance.gpu == gpu.index) ++counts[{gpu.name, instance.profile}];
    }
  }
  std::vector<DeviceCount> devices;
  for (const auto& [what, count] : counts) devices.push_back({what.first, what.second, count});
  return devices;
}

std::string detected_type(const DeviceCount& device) {
  std::string type = base::lower(device.product);
  std::replace(type.begin(), type.end(), ' ', '_');
  if (device.profile.empty()) return type;
  type = type.substr(0, type.find('-'));
  return type.empty() ? base::lower(device.profile) : type + "_" + base::lower(device.profile);
}

namespace {

bool longer(std::string_view a, std::string_view b) { return a.size() != b.size() ? a.size() > b.size() : a < b; }

// Slices, memory, then the plain one first.
bool larger(const DeviceCount& a, const DeviceCount& b) {
  const auto shape = [](const DeviceCount& d) {
    const auto parsed = parse_shape(d.profile);
    return parsed ? *parsed : Shape{0, 1000, 0, ""};  // whole GPUs first
  };
  const Shape x = shape(a);
  const Shape y = shape(b);
  if (x.slices != y.slices) return x.slices > y.slices;
  if (x.memory_gb != y.memory_gb) return x.memory_gb > y.memory_gb;
  if (x.attributes != y.attributes) return x.attributes < y.attributes;
  return a.product < b.product;
}

std::vector<GresEntry> entries_of(std::vector<DeviceCount> devices, bool long_types) {
  std::sort(devices.begin(), devices.end(), larger);
  std::vector<GresEntry> entries;
  for (const DeviceCount& device : devices) {
    const std::string type = long_types || device.profile.empty() ? detected_type(device) : base::lower(device.profile);
    const auto same =
        std::find_if(entries.begin(), entries.end(), [&](const GresEntry& entry) { return entry.type == type; });
    if (same == entries.end()) {
      entries.push_back({type, device.count});
    } else {
      same->count += device.count;
    }
  }
  return entries;
}

}  // namespace

Match match(const std::vector<GresEntry>& configured, const std::vector<DeviceCount>& devices) {
  struct Kind {
    std::string type;
    const DeviceCount* device;
  };
  std::vector<Kind> kinds;
  for (const DeviceCount& device : devices) kinds.push_back({detected_type(device), &device});
  std::sort(kinds.begin(), kinds.end(), [](const Kind& a, const Kind& b) { return longer(a.type, b.type); });
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < configured.size(); ++i) order.push_back(i);
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return longer(configured[a].type, configured[b].type); });

  Match result;
  for (const GresEntry& entry : configured) result.got.push_back({entry.type, 0});
  std::map<std::pair<std::size_t, std::string>, unsigned> takes;
  for (const Kind& kind : kinds) {
    unsigned left = kind.device->count;
    for (std::size_t i : order) {
      if (!base::contains_ignoring_case(kind.type, configured[i].type)) continue;
      const unsigned room = configured[i].count - result.got[i].count;
      const unsigned taken = std::min(room, left);
      if (taken == 0) continue;
      result.got[i].count += taken;
      left -= taken;
      takes[{i, kind.type}] += taken;
    }
    if (left > 0) result.ignored.push_back(kind.type + " (" + std::to_string(left) + ")");
  }
  // An entry that names one existing kind exactly, or ends in it, but got another one.
  for (const auto& [key, count] : takes) {
    const auto& [i, type] = key;
    const std::string& wanted = configured[i].type;
    const auto exact = [&](const std::string& candidate) {
      return base::equals_ignoring_case(candidate, wanted) ||
             base::lower(candidate).ends_with("_" + base::lower(wanted));
    };
    if (exact(type)) continue;
    const bool has_own = std::any_of(kinds.begin(), kinds.end(), [&](const Kind& kind) { return exact(kind.type); });
    const auto shape = parse_shape(wanted);
    if (has_own || shape) result.wrong.push_back("gpu:" + wanted + " takes " + std::to_string(count) + " of " + type);
  }
  return result;
}

Gres gres_for(const std::vector<DeviceCount>& devices) {
  Gres gres;
  // One short type on two boards is two kinds of device under one name.
  std::map<std::string, std::vector<std::string>> boards;
  bool whole = false;
  for (const DeviceCount& device : devices) {
    if (device.profile.empty()) whole = true;
    if (!device.profile.empty()) boards[base::lower(device.profile)].push_back(detected_type(device));
  }
  for (auto& [profile, types] : boards) {
    std::sort(types.begin(), types.end());
    types.erase(std::unique(types.begin(), types.end()), types.end());
    if (types.size() > 1) {
      gres.long_types = true;
      gres.warnings.push_back("the type " + profile + " would stand for different devices (" + base::join(types, ", ") +
                              "): the longer names are used");
    }
  }
  const auto short_entries = entries_of(devices, false);
  const Match short_match = match(short_entries, devices);
  const bool confused = !short_match.wrong.empty() || !short_match.ignored.empty();
  const bool products =
      std::none_of(devices.begin(), devices.end(), [](const DeviceCount& d) { return d.product.empty(); });
  if (confused && !gres.long_types && products) {
    gres.long_types = true;
    gres.warnings.push_back(
        std::string("Slurm matches types as parts of names, and short types would be confused here") +
        (whole ? " (whole GPUs beside MIG devices)" : "") + ": the longer names are used");
  }
  gres.entries = entries_of(devices, gres.long_types);
  for (const auto& [profile, types] : boards) {
    for (const auto& [other, other_types] : boards) {
      if (profile == other || other.find(profile) == std::string::npos) continue;
      gres.warnings.push_back("Slurm matches types as parts of names: " + profile + " is a part of " + other +
                              "; declare both, as printed, or a " + other + " is counted as " + profile +
                              " (longer names: " + types.front() + ", " + other_types.front() + ")");
    }
  }
  return gres;
}

std::string gres_text(const std::vector<GresEntry>& entries) {
  std::vector<std::string> parts;
  for (const GresEntry& entry : entries)
    parts.push_back("gpu:" + (entry.type.empty() ? "" : entry.type + ":") + std::to_string(entry.count));
  return base::join(parts, ",");
}

namespace {

std::string_view without_key(std::string_view text) {
  std::string_view whole = base::trim(text);
  if (whole.starts_with("Gres=")) whole.remove_prefix(5);
  return whole;
}

// The socket list "(S:0,1)" has commas of its own.
std::string without_sockets(std::string_view text) {
  std::string flat;
  int depth = 0;
  for (char c : text) {
    if (c == '(') ++depth;
    if (depth == 0) flat += c;
    if (c == ')' && depth > 0) --depth;
  }
  return flat;
}

bool is_gres_entry(std::string_view part) {
  const auto fields = base::split(part, ':');
  return fields.size() <= 4 && std::all_of(fields.begin(), fields.end(), [](std::string_view field) {
           return !field.empty() && std::all_of(field.begin(), field.end(), [](char c) {
             return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
                    std::string_view("._+-/").find(c) != std::string_view::npos;
           });
         });
}

}  // namespace

base::Result<std::vector<GresEntry>> parse_given_gres(std::string_view text) {
  auto entries = parse_gres(text);
  const std::string_view whole = without_key(text);
  if (!entries || whole.empty() || whole == "(null)") return entries;
  const std::string flat = without_sockets(whole);
  const auto refused = [](const std::string& why) {
    return Error{ExitCode::usage, why, "write it as Slurm does: gpu:3g.20gb:8,gpu:1g.5gb:16"};
  };
  for (std::string_view part : base::split(flat, ',')) {
    part = base::trim(part);
    while (part.ends_with('\\')) part.remove_suffix(1);
    if (!is_gres_entry(part)) return refused("'" + base::printable(part, 80) + "' is no Gres entry");
  }
  if (entries->empty()) return refused("'" + base::printable(whole, 80) + "' names no gpu");
  return entries;
}

base::Result<std::vector<GresEntry>> parse_gres(std::string_view text) {
  const std::string_view whole = without_key(text);
  std::vector<GresEntry> entries;
  if (whole.empty() || whole == "(null)") return entries;
  const std::string flat = without_sockets(whole);
  for (std::string_view part : base::split(flat, ',')) {
    part = base::trim(part);
    if (part.empty()) continue;
    while (part.ends_with('\\')) part.remove_suffix(1);  // as escaped for the AWS command line
    const auto fields = base::split(part, ':');
    if (!base::equals_ignoring_case(fields[0], "gpu")) continue;
    std::string type;
    unsigned count = 1;
    if (fields.size() == 2) {
      if (const auto number = base::parse_number(fields[1])) {
        count = static_cast<unsigned>(std::min<std::uint64_t>(*number, 100'000));
      } else {
        type = fields[1];
      }
    } else if (fields.size() >= 3) {
      type = fields[1];
      const auto number = base::parse_number(fields.back());
      if (!number || *number > 100'000 || fields.size() > 4) {
        return Error{ExitCode::usage, "'" + base::printable(part, 80) + "' is no Gres entry",
                     "write it as Slurm does: gpu:3g.20gb:8,gpu:1g.5gb:16"};
      }
      count = static_cast<unsigned>(*number);
    }
    entries.push_back({base::printable(type, 100), count});
  }
  return entries;
}

namespace {

nlohmann::ordered_json aws_settings(const std::vector<GresEntry>& entries) {
  nlohmann::ordered_json json;
  json["gresCustomSettings"] = nlohmann::ordered_json::array({{{"AutoDetect", "nvml"}}});
  json["slurmCustomSettings"] =
      nlohmann::ordered_json::array({{{"parameterName", "Gres"}, {"parameterValue", gres_text(entries)}}});
  return json;
}

std::string as_text(const nlohmann::ordered_json& json, int indent) {
  return json.dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

// One word for a POSIX shell, whatever is in it.
std::string shell_word(const std::string& text) {
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return word + "'";
}

// The AWS command line's shorthand knows no way to write quotes and brackets into a value.
bool fits_shorthand(const std::string& value) {
  return std::all_of(value.begin(), value.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           std::string_view(":,._+-/()").find(c) != std::string_view::npos;
  });
}

}  // namespace

std::string aws_cli(const std::vector<GresEntry>& entries) {
  std::string value = gres_text(entries);
  const bool shorthand = fits_shorthand(value);
  for (std::size_t at = value.find(','); at != std::string::npos; at = value.find(',', at + 2))
    value.insert(at, 1, '\\');
  const std::string settings =
      shorthand
          ? "gresCustomSettings=[{AutoDetect=nvml}],slurmCustomSettings=[{parameterName=Gres,parameterValue=" + value +
                "}]"
          : as_text(aws_settings(entries), -1);
  return "aws pcs update-compute-node-group \\\n"
         "--cluster-identifier my-cluster \\\n"
         "--compute-node-group-identifier my-cng-1 \\\n"
         "--slurm-configuration \\\n" +
         shell_word(settings);
}

std::string aws_json(const std::vector<GresEntry>& entries) { return as_text(aws_settings(entries), 2); }

GresChange change_of(const std::vector<GresEntry>& before, const std::vector<GresEntry>& after) {
  std::map<std::string, std::pair<unsigned, unsigned>> types;
  for (const GresEntry& entry : before) types[base::lower(entry.type)].first += entry.count;
  for (const GresEntry& entry : after) types[base::lower(entry.type)].second += entry.count;
  GresChange change;
  for (const auto& [type, counts] : types) {
    const auto& [was, is] = counts;
    const std::string arrow = type + " " + std::to_string(was) + " -> " + std::to_string(is);
    if (was > 0 && is == 0)
      change.gone.push_back(type);
    else if (was == 0 && is > 0)
      change.added.push_back(type);
    else if (was > is)
      change.fewer.push_back(arrow);
    else if (was < is)
      change.more.push_back(arrow);
  }
  return change;
}

std::vector<std::string> tell(const GresChange& change, const std::vector<std::string>& stale) {
  std::vector<std::string> lines;
  if (change.same()) return {"the Gres setting stays as it is: nothing to do for Slurm"};
  if (!change.gone.empty()) {
    lines.push_back("gone: " + base::join(change.gone, ", ") +
                    ". Jobs that ask for it are still accepted until every node that registered it has booted and "
                    "registered again");
  }
  if (!change.added.empty()) {
    lines.push_back("new: " + base::join(change.added, ", ") +
                    ". Jobs that ask for it are rejected ('Requested node configuration is not available') until a "
                    "node with it has registered");
  }
  if (!change.fewer.empty())
    lines.push_back("fewer: " + base::join(change.fewer, ", ") +
                    ". A job sized for the old count may start on a node that has fewer");
  if (!change.more.empty())
    lines.push_back("more: " + base::join(change.more, ", ") +
                    ". Known to Slurm only once the nodes have registered again");
  if (stale.empty()) {
    lines.push_back(
        "boot every node of the node group that registered the old layout, powered down ones too (they keep "
        "advertising it):");
    lines.push_back("scontrol update NodeName=my-cng-1-[1-8] State=POWER_UP");
  } else {
    lines.push_back("these nodes still advertise the old layout: " + base::join(stale, ",") + "; boot them:");
    lines.push_back("scontrol update NodeName=" + base::join(stale, ",") + " State=POWER_UP");
  }
  return lines;
}

std::vector<std::string> stale_nodes(std::string_view show_node, const std::vector<GresEntry>& before,
                                     const std::vector<GresEntry>& after) {
  std::vector<std::string> nodes;
  for (std::string_view line : base::each_line(show_node)) {
    if (!line.starts_with("NodeName=")) continue;
    const auto words = base::words(line);
    const std::string name(words.front().substr(9));
    for (std::string_view word : words) {
      // Reason= and Comment= hold a person's text; Gres= stands before them.
      if (word.starts_with("OS=") || word.starts_with("Reason=") || word.starts_with("Comment=") ||
          word.starts_with("Extra="))
        break;
      if (!word.starts_with("Gres=")) continue;
      const auto gres = parse_gres(word);
      if (!gres) break;
      const bool advertises_old = std::any_of(gres->begin(), gres->end(), [&](const GresEntry& entry) {
        return std::any_of(before.begin(), before.end(),
                           [&](const GresEntry& old) { return base::equals_ignoring_case(old.type, entry.type); });
      });
      if (advertises_old && !change_of(*gres, after).same()) nodes.push_back(base::printable(name, 100));
      break;
    }
  }
  return nodes;
}

}  // namespace mig
