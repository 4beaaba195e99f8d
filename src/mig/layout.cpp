#include "mig/layout.h"

#include <algorithm>

#include "base/text.h"
#include "mig/profiles.h"

namespace mig {

using base::Error;
using base::ExitCode;

namespace {

constexpr std::string_view layout_help =
    "write names with counts (3g.20gb:1,1g.5gb:2), profile IDs as nvidia-smi takes them (9,14,19,19), or none";
constexpr std::string_view selection_help =
    "select GPUs by index (0, 0-3), PCI bus id (00000000:36:00.0), UUID (GPU-...) or model:PART_OF_THE_PRODUCT_NAME";
constexpr unsigned most_of_one = 64;  // no board has more instances; keeps a slip of the finger from being counted
constexpr unsigned highest_index = 1023;

Error bad_layout(std::string_view text, const std::string& why) {
  return {ExitCode::usage, "layout '" + base::printable(text, 200) + "': " + why, std::string(layout_help)};
}

Error bad_selection(std::string_view text, const std::string& why) {
  return {ExitCode::usage, "GPU selection '" + base::printable(text, 100) + "': " + why, std::string(selection_help)};
}

}  // namespace

std::string Layout::show() const {
  if (kind == Kind::off) return "none";
  if (kind == Kind::empty) return "empty";
  std::vector<std::string> parts;
  for (const LayoutItem& item : items) {
    if (!item.is_id) {
      parts.push_back(item.profile + ":" + std::to_string(item.count));
      continue;
    }
    for (unsigned i = 0; i < item.count; ++i) parts.push_back(item.profile);
  }
  return base::join(parts, ",");
}

std::string Selection::show() const {
  switch (kind) {
    case Kind::all: return "all";
    case Kind::indexes: {
      std::vector<std::string> parts;
      for (unsigned index : indexes) parts.push_back(std::to_string(index));
      return base::join(parts, ",");
    }
    case Kind::model: return "model:" + words.front();
    case Kind::filter: return "device-filter " + base::join(words, ",");
    default: return words.front();
  }
}

base::Result<Layout> parse_layout(std::string_view text) {
  const std::string_view whole = base::trim(text);
  Layout layout;
  if (whole.empty()) return bad_layout(text, "it is empty");
  if (base::equals_ignoring_case(whole, "none")) {
    layout.kind = Layout::Kind::off;
    return layout;
  }
  for (std::string_view part : base::split(whole, ',')) {
    part = base::trim(part);
    if (part.empty()) return bad_layout(text, "an item is missing between commas");
    LayoutItem item;
    const std::size_t colon = part.find(':');
    const std::string_view name = base::trim(part.substr(0, colon));
    if (const auto id = base::parse_number(name)) {
      if (*id > 4096) return bad_layout(text, "'" + base::printable(part, 60) + "' is no profile ID");
      if (colon != std::string_view::npos) {
        // nvidia-smi's own id:start would look like a count; where instances go is planned here.
        return bad_layout(text,
                          "'" + base::printable(part, 60) +
                              "': an ID takes no ':'; write the ID once for each instance, their places are planned");
      }
      item.profile = std::to_string(*id);
      item.is_id = true;
    } else {
      const auto shape = parse_shape(name);
      if (!shape) return bad_layout(text, "'" + base::printable(part, 60) + "' is no profile name or ID");
      if (shape->compute_slices != 0) {
        return bad_layout(
            text, "'" + base::printable(part, 60) +
                      "' is a part of a GPU instance; every GPU instance gets one compute instance of its full size");
      }
      item.profile = base::lower(name);
      if (item.profile.starts_with("mig ")) item.profile = std::string(base::trim(item.profile.substr(4)));
      if (colon != std::string_view::npos) {
        const auto count = base::parse_number(base::trim(part.substr(colon + 1)));
        if (!count || *count == 0 || *count > most_of_one) {
          return bad_layout(text, "'" + base::printable(part, 60) + "': the count is not between 1 and " +
                                      std::to_string(most_of_one));
        }
        item.count = static_cast<unsigned>(*count);
      }
    }
    const auto same = std::find_if(layout.items.begin(), layout.items.end(),
                                   [&](const LayoutItem& other) { return other.profile == item.profile; });
    if (same == layout.items.end()) {
      layout.items.push_back(std::move(item));
    } else {
      same->count += item.count;
      if (same->count > most_of_one)
        return bad_layout(text, "more than " + std::to_string(most_of_one) + " of " + same->profile);
    }
  }
  return layout;
}

base::Result<Selection> parse_selection(std::string_view text) {
  const std::string_view whole = base::trim(text);
  Selection selection;
  if (whole.empty()) return bad_selection(text, "it is empty");
  if (base::equals_ignoring_case(whole, "all") || whole == "*") return selection;
  if (base::lower(whole).starts_with("model:")) {
    const std::string_view model = base::trim(whole.substr(6));
    if (model.empty()) return bad_selection(text, "the model is empty");
    selection.kind = Selection::Kind::model;
    selection.words.emplace_back(model);
    return selection;
  }
  if (base::lower(whole).starts_with("gpu-")) {
    selection.kind = Selection::Kind::uuid;
    selection.words.emplace_back(whole);
    return selection;
  }
  if (canonical_bus_id(whole)) {
    selection.kind = Selection::Kind::bus_id;
    selection.words.emplace_back(whole);
    return selection;
  }
  selection.kind = Selection::Kind::indexes;
  for (std::string_view part : base::split(whole, ',')) {
    part = base::trim(part);
    const std::size_t dash = part.find('-');
    const auto first = base::parse_number(part.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : base::parse_number(part.substr(dash + 1));
    if (!first || !last)
      return bad_selection(text, "'" + base::printable(part, 60) + "' is no index, range, bus id, UUID or model");
    if (*last < *first || *last > highest_index)
      return bad_selection(text, "'" + base::printable(part, 60) + "' is no range of indexes");
    for (auto index = *first; index <= *last; ++index) {
      const auto number = static_cast<unsigned>(index);
      if (std::find(selection.indexes.begin(), selection.indexes.end(), number) != selection.indexes.end()) {
        return bad_selection(text, "index " + std::to_string(number) + " stands in it twice");
      }
      selection.indexes.push_back(number);
    }
  }
  return selection;
}

base::Result<std::vector<Rule>> parse_rules(const std::vector<std::string>& texts) {
  std::vector<Rule> rules;
  for (const std::string& text : texts) {
    Rule rule;
    std::string_view layout_text = text;
    if (const std::size_t equals = text.find('='); equals != std::string::npos) {
      auto selection = parse_selection(std::string_view(text).substr(0, equals));
      if (!selection) return selection.error();
      rule.selection = std::move(*selection);
      layout_text = std::string_view(text).substr(equals + 1);
    }
    auto layout = parse_layout(layout_text);
    if (!layout) return layout.error();
    rule.layout = std::move(*layout);
    rules.push_back(std::move(rule));
  }
  if (rules.empty())
    return Error{ExitCode::usage, "no layout given", "give --layout or --layout-file: " + std::string(layout_help)};
  return rules;
}

namespace {

bool fits(const Selection& selection, const Gpu& gpu) {
  switch (selection.kind) {
    case Selection::Kind::all: return true;
    case Selection::Kind::indexes:
      return std::find(selection.indexes.begin(), selection.indexes.end(), gpu.index) != selection.indexes.end();
    case Selection::Kind::bus_id: return canonical_bus_id(selection.words.front()) == canonical_bus_id(gpu.bus_id);
    case Selection::Kind::uuid: return base::equals_ignoring_case(selection.words.front(), gpu.uuid);
    case Selection::Kind::model: return base::contains_ignoring_case(gpu.name, selection.words.front());
    case Selection::Kind::filter: break;
  }
  const bool device = selection.words.empty() ||
                      std::any_of(selection.words.begin(), selection.words.end(),
                                  [&](const std::string& id) { return base::equals_ignoring_case(id, gpu.device_id); });
  const bool index = selection.indexes.empty() || std::find(selection.indexes.begin(), selection.indexes.end(),
                                                            gpu.index) != selection.indexes.end();
  return device && index;
}

std::string list(const std::vector<Gpu>& gpus) {
  std::vector<std::string> parts;
  for (const Gpu& gpu : gpus)
    parts.push_back(std::to_string(gpu.index) + " " + gpu.bus_id + " " + gpu.uuid + " " + gpu.name);
  return base::join(parts, "; ");
}

}  // namespace

base::Result<std::vector<Wanted>> select(const std::vector<Rule>& rules, const std::vector<Gpu>& gpus) {
  std::vector<Wanted> wanted;
  std::vector<const Rule*> rule_of(gpus.size(), nullptr);
  for (const Rule& rule : rules) {
    const Selection& selection = rule.selection;
    for (unsigned index : selection.indexes) {
      if (find_by_index(gpus, index) == nullptr) {
        return Error{
            ExitCode::usage,
            "there is no GPU " + std::to_string(index) + " on this node (layout for '" + selection.show() + "')",
            "the GPUs here: " + list(gpus)};
      }
    }
    bool any = false;
    for (std::size_t i = 0; i < gpus.size(); ++i) {
      if (!fits(selection, gpus[i])) continue;
      any = true;
      if (rule_of[i] != nullptr) {
        return Error{ExitCode::usage,
                     "two layouts for " + gpus[i].show() + ": '" + rule_of[i]->selection.show() + "' and '" +
                         selection.show() + "' both select it",
                     "write one --layout for each GPU"};
      }
      rule_of[i] = &rule;
    }
    if (!any && !selection.if_any) {
      return Error{ExitCode::usage, "no GPU of this node is '" + base::printable(selection.show(), 100) + "'",
                   "the GPUs here: " + list(gpus)};
    }
  }
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    if (rule_of[i] == nullptr) continue;
    wanted.push_back({gpus[i], rule_of[i]->layout,
                      rule_of[i]->selection.kind != Selection::Kind::all && !rule_of[i]->selection.if_any});
  }
  if (wanted.empty()) {
    return Error{ExitCode::usage, "the layout file has no rule for a GPU of this node",
                 "the GPUs here: " + list(gpus) + ", device ID " + (gpus.empty() ? "?" : gpus.front().device_id)};
  }
  return wanted;
}

std::string show(const std::vector<Rule>& rules) {
  std::vector<std::string> parts;
  for (const Rule& rule : rules) {
    const bool all = rule.selection.kind == Selection::Kind::all;
    parts.push_back((all ? "" : rule.selection.show() + "=") + rule.layout.show());
  }
  return base::join(parts, " ");
}

}  // namespace mig
