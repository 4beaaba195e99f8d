// Layout files: our JSON, and the v1 configuration of NVIDIA/mig-parted, which refuses unknown fields; so do we.
#include <yaml-cpp/yaml.h>

#include <optional>
#include <set>

#include "base/text.h"
#include "mig/layout.h"
#include "mig/profiles.h"
#include "mig/strict_text.h"

namespace mig {

using base::Error;
using base::ExitCode;

namespace {

using Json = nlohmann::ordered_json;

Error bad(const std::string& why) {
  return {ExitCode::usage, "layout file: " + why, "docs/mig.md shows both forms of a layout file"};
}

base::Result<Layout> layout_of(const Json& value) {
  if (value.is_string()) return parse_layout(value.get<std::string>());
  std::vector<std::string> parts;
  if (value.is_array()) {
    for (const Json& item : value) {
      if (item.is_number_unsigned()) {
        parts.push_back(std::to_string(item.get<std::uint64_t>()));
      } else if (item.is_string()) {
        parts.push_back(item.get<std::string>());
      } else {
        return bad("an item of a list of profiles is neither a name nor an ID");
      }
    }
  } else if (value.is_object()) {
    for (const auto& [name, count] : value.items()) {
      if (!count.is_number_unsigned()) return bad("the count of '" + base::printable(name, 60) + "' is no number");
      parts.push_back(name + ":" + std::to_string(count.get<std::uint64_t>()));
    }
  } else {
    return bad("a layout is a text, a list of profiles or a map of names and counts");
  }
  return parse_layout(base::join(parts, ","));
}

base::Result<Rule> rule_of(const std::string& selection_text, const Json& layout_value) {
  auto selection = parse_selection(selection_text);
  if (!selection) return selection.error();
  auto layout = layout_of(layout_value);
  if (!layout) return layout.error();
  return Rule{std::move(*selection), std::move(*layout)};
}

// {"layout": ...}, {"layouts": {"SEL": ..., ...}} or {"layouts": [{"gpus": "SEL", "layout": ...}, ...]}
base::Result<std::vector<Rule>> from_json(const Json& file) {
  std::vector<Rule> rules;
  if (!file.is_object()) return bad("it is no JSON object");
  for (const auto& [key, value] : file.items()) {
    if (key != "layout" && key != "layouts") return bad("unknown key '" + base::printable(key, 60) + "'");
  }
  if (file.contains("layout") == file.contains("layouts")) return bad("it needs either 'layout' or 'layouts'");
  if (file.contains("layout")) {
    auto rule = rule_of("all", file["layout"]);
    if (!rule) return rule.error();
    return std::vector<Rule>{std::move(*rule)};
  }
  const Json& layouts = file["layouts"];
  if (layouts.is_object()) {
    for (const auto& [selection, value] : layouts.items()) {
      auto rule = rule_of(selection, value);
      if (!rule) return rule.error();
      rules.push_back(std::move(*rule));
    }
  } else if (layouts.is_array()) {
    for (const Json& entry : layouts) {
      if (!entry.is_object() || !entry.contains("layout")) return bad("an entry of 'layouts' has no 'layout'");
      for (const auto& [key, value] : entry.items()) {
        if (key != "gpus" && key != "layout") return bad("unknown key '" + base::printable(key, 60) + "' in 'layouts'");
      }
      const Json gpus = entry.value("gpus", Json("all"));
      if (!gpus.is_string() && !gpus.is_number_unsigned()) return bad("'gpus' is neither a text nor an index");
      auto rule = rule_of(gpus.is_string() ? gpus.get<std::string>() : std::to_string(gpus.get<std::uint64_t>()),
                          entry["layout"]);
      if (!rule) return rule.error();
      rules.push_back(std::move(*rule));
    }
  } else {
    return bad("'layouts' is neither a map nor a list");
  }
  if (rules.empty()) return bad("'layouts' is empty");
  return rules;
}

std::string at(const YAML::Node& node) { return " (line " + std::to_string(node.Mark().line + 1) + ")"; }

std::optional<std::string> only_known(const YAML::Node& map, const std::set<std::string>& known) {
  for (const auto& entry : map) {
    const std::string key = entry.first.Scalar();
    if (!known.contains(key)) return "unexpected field '" + base::printable(key, 60) + "'" + at(entry.first);
  }
  return std::nullopt;
}

base::Result<Rule> parted_rule(const YAML::Node& entry) {
  if (!entry.IsMap()) return bad("a rule is no map" + at(entry));
  if (const auto unknown = only_known(entry, {"devices", "device-filter", "mig-enabled", "mig-devices"}))
    return bad(*unknown);
  for (const char* required : {"devices", "mig-enabled"}) {
    if (!entry[required]) return bad("missing required field '" + std::string(required) + "'" + at(entry));
  }
  Rule rule;
  rule.selection.kind = Selection::Kind::filter;
  rule.selection.if_any = true;
  const YAML::Node devices = entry["devices"];
  if (devices.IsSequence()) {
    for (const auto& device : devices) {
      const auto index = base::parse_number(device.Scalar());
      if (!index || *index > 1023)
        return bad("'" + base::printable(device.Scalar(), 60) + "' in 'devices' is no index" + at(device));
      rule.selection.indexes.push_back(static_cast<unsigned>(*index));
    }
    if (rule.selection.indexes.empty()) return bad("'devices' is empty" + at(devices));
  } else if (!devices.IsScalar() || devices.Scalar() != "all") {
    return bad("'devices' is neither 'all' nor a list of indexes" + at(devices));
  }
  if (const YAML::Node filter = entry["device-filter"]) {
    std::vector<std::string> ids;
    if (filter.IsSequence()) {
      for (const auto& id : filter) ids.push_back(id.Scalar());
    } else {
      ids.push_back(filter.Scalar());
    }
    for (const std::string& id : ids) {
      const std::string lowered = base::lower(id);
      if (lowered.size() != 10 || !lowered.starts_with("0x") ||
          lowered.find_first_not_of("0123456789abcdef", 2) != std::string::npos) {
        return bad("device-filter '" + base::printable(id, 60) + "' is not of the form 0x233510DE" + at(filter));
      }
      rule.selection.words.push_back(id);
    }
    if (ids.empty()) return bad("'device-filter' is empty" + at(filter));
  }
  if (rule.selection.words.empty() && rule.selection.indexes.empty()) rule.selection = Selection{};  // all
  const std::string enabled = entry["mig-enabled"].IsScalar() ? entry["mig-enabled"].Scalar() : "";
  if (enabled != "true" && enabled != "false")
    return bad("'mig-enabled' is neither true nor false" + at(entry["mig-enabled"]));
  const YAML::Node profiles = entry["mig-devices"];
  if (profiles && !profiles.IsMap() && !profiles.IsNull()) return bad("'mig-devices' is no map" + at(profiles));
  const bool any = profiles && profiles.IsMap() && profiles.size() > 0;
  if (enabled == "false") {
    if (any) return bad("'mig-devices' with 'mig-enabled: false'" + at(profiles));
    rule.layout.kind = Layout::Kind::off;
    return rule;
  }
  if (!any) {
    rule.layout.kind = Layout::Kind::empty;
    return rule;
  }
  std::vector<std::string> parts;
  std::set<std::string> names;
  for (const auto& profile : profiles) {
    const std::string name = profile.first.Scalar();
    if (!parse_shape(name)) return bad("'" + base::printable(name, 60) + "' is no profile name" + at(profile.first));
    if (!names.insert(base::lower(name)).second)
      return bad("profile '" + base::printable(name, 60) + "' stands twice" + at(profile.first));
    if (!profile.second.IsScalar())
      return bad("the count of '" + base::printable(name, 60) + "' is no number" + at(profile.first));
    if (profile.second.Scalar() == "0") continue;
    parts.push_back(name + ":" + profile.second.Scalar());
  }
  if (parts.empty()) {
    rule.layout.kind = Layout::Kind::empty;
    return rule;
  }
  auto layout = parse_layout(base::join(parts, ","));
  if (!layout) return layout.error();
  rule.layout = std::move(*layout);
  return rule;
}

base::Result<std::vector<Rule>> from_parted(const YAML::Node& file, const std::string& label) {
  if (const auto unknown = only_known(file, {"version", "mig-configs"})) return bad(*unknown);
  if (!file["version"] || file["version"].Scalar() != "v1") return bad("mig-parted's 'version' is not v1");
  const YAML::Node configs = file["mig-configs"];
  if (!configs || !configs.IsMap()) return bad("'mig-configs' is missing or no map");
  std::vector<std::string> labels;
  for (const auto& config : configs) labels.push_back(base::printable(config.first.Scalar(), 60));
  if (label.empty()) {
    return Error{ExitCode::usage, "a mig-parted file needs --layout-name",
                 "the labels in this file: " + base::join(labels, ", ")};
  }
  const YAML::Node config = configs[label];
  if (!config) {
    return Error{ExitCode::usage, "the layout file has no mig-config '" + base::printable(label, 60) + "'",
                 "the labels in this file: " + base::join(labels, ", ")};
  }
  if (!config.IsSequence() || config.size() == 0)
    return bad("mig-config '" + base::printable(label, 60) + "' is no list of rules" + at(config));
  std::vector<Rule> rules;
  for (const auto& entry : config) {
    auto rule = parted_rule(entry);
    if (!rule) return rule.error();
    rules.push_back(std::move(*rule));
  }
  return rules;
}

}  // namespace

base::Result<std::vector<Rule>> parse_layout_file(const std::string& written, const std::string& label) {
  // Editors of other systems begin a file with a byte order mark.
  const std::string text = written.starts_with("\xEF\xBB\xBF") ? written.substr(3) : written;
  if (text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF"))
    return bad("it begins with a byte order mark of UTF-16: save it as UTF-8");
  if (base::trim(text).empty()) return bad("it is empty");
  if (text.find('\0') != std::string::npos) return bad("it is no text file");
  const bool looks_like_json = base::trim(text).front() == '{';
  if (looks_like_json) {
    auto json = parse_strict_json(text);
    if (!json) return bad(json.error().what);
    if (!json->contains("mig-configs")) {
      if (!label.empty())
        return Error{ExitCode::usage, "--layout-name is for mig-parted's files, this one has no 'mig-configs'",
                     "leave --layout-name out"};
      return from_json(*json);
    }
  }
  // JSON is YAML, so mig-parted's `export -o json` is read here as well.
  try {
    if (auto strict = check_strict_yaml(text); !strict) return bad(strict.error().what);
    const YAML::Node file = YAML::Load(text);
    if (!file.IsMap()) return bad("it is neither a JSON object nor mig-parted's YAML");
    return from_parted(file, label);
  } catch (const YAML::Exception& error) {
    return bad("it is no valid YAML: " + base::printable(error.what(), 160));
  }
}

}  // namespace mig
