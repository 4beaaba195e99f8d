// What a person wants: layouts in words, and which GPUs each is for. Pure; nothing here knows a board.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "mig/gpu.h"

namespace mig {

struct LayoutItem {
  std::string profile;  // a name ("3g.20gb") or an ID ("9")
  bool is_id = false;
  unsigned count = 1;
};

struct Layout {
  enum class Kind { off, empty, split };  // empty: MIG on without instances, only mig-parted's files can say it
  Kind kind = Kind::split;
  std::vector<LayoutItem> items;

  std::string show() const;  // "3g.20gb:1,1g.5gb:2", "none", "empty"
};

// Which GPUs a layout is for.
struct Selection {
  enum class Kind { all, indexes, bus_id, uuid, model, filter };
  Kind kind = Kind::all;
  std::vector<unsigned> indexes;
  std::vector<std::string> words;  // bus id, UUID, part of the product name; device IDs of a filter
  bool if_any = false;             // a rule of a file that fits no GPU here is passed over

  std::string show() const;  // as written on the command line
};

struct Rule {
  Selection selection;
  Layout layout;
};

// "3g.20gb:1,2g.10gb:1,1g.5gb:2", "9,14,19,19", "none". Error: usage.
base::Result<Layout> parse_layout(std::string_view text);

// "all", "0", "0-3", "0,2-3", "36:00.0", "GPU-...", "model:H200". Error: usage.
base::Result<Selection> parse_selection(std::string_view text);

// The values of --layout: each "LAYOUT" or "SEL=LAYOUT". Error: usage, also for an empty list.
base::Result<std::vector<Rule>> parse_rules(const std::vector<std::string>& texts);

// A layout file: our JSON, or mig-parted's YAML or JSON ("version: v1"), then with `label`. Error: usage.
base::Result<std::vector<Rule>> parse_layout_file(const std::string& text, const std::string& label);

// A rule for a GPU. GPUs without one are left alone.
struct Wanted {
  Gpu gpu;
  Layout layout;
  bool by_name = false;  // the selection names this GPU; else it is one of "all"
};

// Error (usage): a selection that fits no GPU, two rules for one GPU, nothing selected at all.
base::Result<std::vector<Wanted>> select(const std::vector<Rule>& rules, const std::vector<Gpu>& gpus);

// The rules in one line, for the log and the status file.
std::string show(const std::vector<Rule>& rules);

}  // namespace mig
