#include "mig/plan.h"

#include <algorithm>
#include <map>

#include "base/text.h"

namespace mig {

using base::Error;
using base::ExitCode;

namespace {

std::string list(const std::vector<ProfileName>& board) {
  std::vector<std::string> parts;
  for (const ProfileName& profile : board) parts.push_back(profile.name + " (ID " + std::to_string(profile.id) + ")");
  return base::join(parts, ", ");
}

bool near(unsigned wanted, unsigned found) {
  const unsigned apart = wanted > found ? wanted - found : found - wanted;
  return apart * 100 <= wanted * 3;
}

// A GPU has at most some ten places, and what fits one is found in some hundred steps. A listing of another kind is of
// no GPU (a file that somebody wrote), and neither time nor stack is given to it.
constexpr std::size_t most_steps = 100'000;
constexpr std::size_t most_instances = 64;
constexpr unsigned most_units = 1024;

// Owners of a media engine set: a GPU has one set that such instances share out whole.
bool owns_media(std::string_view name) { return name.find("+me") != std::string_view::npos; }

}  // namespace

std::vector<ProfileName> names_of(const Board& board) {
  std::vector<ProfileName> names;
  for (const Profile& profile : board) names.push_back({profile.name, profile.id});
  return names;
}

std::vector<ProfileName> names_of(const std::vector<GpuInstance>& instances, unsigned gpu) {
  std::vector<ProfileName> names;
  for (const GpuInstance& instance : instances) {
    if (instance.gpu != gpu) continue;
    const bool known = std::any_of(names.begin(), names.end(),
                                   [&](const ProfileName& name) { return name.id == instance.profile_id; });
    if (!known) names.push_back({instance.profile, instance.profile_id});
  }
  return names;
}

base::Result<std::vector<Resolved>> resolve(const Layout& layout, const std::vector<ProfileName>& board,
                                            const std::string& gpu) {
  std::vector<Resolved> resolved;
  for (const LayoutItem& item : layout.items) {
    std::vector<ProfileName> found;
    bool drifted = false;
    for (const ProfileName& profile : board) {
      if (item.is_id ? std::to_string(profile.id) == item.profile
                     : base::equals_ignoring_case(profile.name, item.profile)) {
        found.push_back(profile);
      }
    }
    const auto wanted = item.is_id ? std::nullopt : parse_shape(item.profile);
    if (found.empty() && wanted) {
      drifted = true;
      for (const ProfileName& profile : board) {
        const auto shape = parse_shape(profile.name);
        if (shape && shape->slices == wanted->slices && shape->attributes == wanted->attributes &&
            near(wanted->memory_gb, shape->memory_gb)) {
          found.push_back(profile);
        }
      }
    }
    const std::string what = (item.is_id ? "profile ID " : "profile ") + item.profile;
    if (found.empty()) {
      return Error{ExitCode::usage, gpu + " has no " + what, "its driver lists " + list(board)};
    }
    if (found.size() > 1) {
      return Error{ExitCode::usage, what + " may be several profiles of " + gpu + ": " + list(found),
                   "write one of these names"};
    }
    const auto same = std::find_if(resolved.begin(), resolved.end(),
                                   [&](const Resolved& other) { return other.profile.id == found.front().id; });
    if (same == resolved.end()) {
      resolved.push_back({found.front(), item.count, drifted, item.profile});
    } else {
      same->count += item.count;  // a name and its ID, or two spellings
    }
  }
  return resolved;
}

base::Result<std::vector<Placement>> place(const std::vector<Resolved>& wanted, const Board& board,
                                           const std::string& gpu) {
  struct Piece {
    const Profile* profile;
    unsigned count;
  };
  std::vector<Piece> pieces;
  unsigned grid = 0;
  unsigned most_slices = 0;
  for (const Profile& profile : board) {
    for (unsigned start : profile.starts) grid = std::max(grid, start + profile.size);
    most_slices = std::max(most_slices, profile.slices());
  }
  unsigned units = 0;
  unsigned slices = 0;
  unsigned media = 0;
  std::vector<std::string> words;
  for (const Resolved& want : wanted) {
    const auto profile =
        std::find_if(board.begin(), board.end(), [&](const Profile& p) { return p.id == want.profile.id; });
    if (profile == board.end())
      return Error{ExitCode::usage, gpu + " has no profile " + want.profile.name,
                   "its driver lists " + list(names_of(board))};
    words.push_back(profile->name + ":" + std::to_string(want.count));
    if (want.count > profile->total) {
      return Error{ExitCode::usage,
                   gpu + " cannot have " + std::to_string(want.count) + " of " + profile->name + ": at most " +
                       std::to_string(profile->total),
                   "ask for fewer"};
    }
    pieces.push_back({&*profile, want.count});
    units += want.count * profile->size;
    slices += want.count * profile->slices();
    if (owns_media(profile->name)) media += want.count;
  }
  const auto cannot = [&](const std::string& why) {
    return Error{ExitCode::usage, gpu + " cannot hold " + base::join(words, ",") + ": " + why,
                 "choose fewer or smaller profiles; `gpu-prolog mig-setup --layout ... --check` tries one without "
                 "touching a GPU"};
  };
  if (slices > most_slices) return cannot(std::to_string(slices) + " compute slices of " + std::to_string(most_slices));
  if (units > grid) return cannot(std::to_string(units) + " memory units of " + std::to_string(grid));
  if (media > 1) return cannot("more than one profile that owns the media engines (+me)");

  const auto no_gpu = [&](const std::string& why) {
    return Error{ExitCode::usage,
                 "the places of " + base::join(words, ",") + " on " + gpu + " cannot be planned: " + why,
                 "this is the listing of no GPU that is known: look at `nvidia-smi mig -lgipp`"};
  };
  unsigned instances = 0;
  for (const Piece& piece : pieces) instances += piece.count;
  if (grid > most_units) return no_gpu("its listing has " + std::to_string(grid) + " memory units");
  if (instances > most_instances) return no_gpu(std::to_string(instances) + " instances on one GPU");

  std::sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) {
    if (a.profile->size != b.profile->size) return a.profile->size > b.profile->size;
    if (a.profile->slices() != b.profile->slices()) return a.profile->slices() > b.profile->slices();
    // Few places first, then a fixed order.
    if (a.profile->starts.size() != b.profile->starts.size())
      return a.profile->starts.size() < b.profile->starts.size();
    return a.profile->id < b.profile->id;
  });
  std::vector<const Profile*> queue;
  for (const Piece& piece : pieces) queue.insert(queue.end(), piece.count, piece.profile);

  std::vector<bool> taken(grid, false);
  std::vector<Placement> placements;
  std::size_t steps = 0;
  // Every equal piece only goes right of its twin.
  const auto fill = [&](const auto& self, std::size_t next) -> bool {
    if (next == queue.size()) return true;
    if (++steps > most_steps) return false;
    const Profile& profile = *queue[next];
    for (unsigned start : profile.starts) {
      if (next > 0 && queue[next - 1] == &profile && start <= placements.back().start) continue;
      const auto begin = taken.begin() + start;
      const auto end = begin + profile.size;
      if (std::find(begin, end, true) != end) continue;
      std::fill(begin, end, true);
      placements.push_back({{profile.name, profile.id}, start, profile.size});
      if (self(self, next + 1)) return true;
      placements.pop_back();
      std::fill(begin, end, false);
    }
    return false;
  };
  const bool is_placed = fill(fill, 0);
  if (steps > most_steps) return no_gpu("the search was given up after " + std::to_string(most_steps) + " steps");
  if (!is_placed) return cannot("no way to place them in its " + std::to_string(grid) + " memory units");
  return placements;
}

std::string cgi_argument(const std::vector<Placement>& placements) {
  std::vector<std::string> parts;
  for (const Placement& placement : placements)
    parts.push_back(std::to_string(placement.profile.id) + ":" + std::to_string(placement.start));
  return base::join(parts, ",");
}

std::string show(const std::vector<Placement>& placements) {
  std::vector<std::string> parts;
  for (const Placement& placement : placements)
    parts.push_back(placement.profile.name + " at " + std::to_string(placement.start));
  return base::join(parts, ", ");
}

namespace {

std::string counted(const std::map<unsigned, unsigned>& counts, const std::map<unsigned, std::string>& names) {
  std::vector<std::string> parts;
  for (const auto& [id, count] : counts) parts.push_back(names.at(id) + ":" + std::to_string(count));
  return parts.empty() ? "nothing" : base::join(parts, ",");
}

}  // namespace

Standing compare(const std::vector<Resolved>& wanted, const std::vector<GpuInstance>& gpu_instances,
                 const std::vector<ComputeInstance>& compute_instances, unsigned gpu) {
  std::map<unsigned, unsigned> should;
  std::map<unsigned, unsigned> is;
  std::map<unsigned, std::string> names;
  for (const Resolved& want : wanted) {
    should[want.profile.id] += want.count;
    names[want.profile.id] = want.profile.name;
  }
  std::vector<std::string> partial;
  Standing standing;
  for (const GpuInstance& instance : gpu_instances) {
    if (instance.gpu != gpu) continue;
    ++is[instance.profile_id];
    names[instance.profile_id] = instance.profile;
    unsigned whole = 0;
    unsigned parts = 0;
    for (const ComputeInstance& inside : compute_instances) {
      if (inside.gpu != gpu || inside.gpu_instance != instance.id) continue;
      const auto shape = parse_shape(inside.name);
      ++(shape && shape->compute_slices != 0 ? parts : whole);
    }
    if (whole + parts == 0) standing.without_ci.push_back(instance.id);
    if (parts > 0 || whole > 1) partial.push_back(std::to_string(instance.id));
  }
  if (should != is) {
    standing.why = "has " + counted(is, names) + ", wanted " + counted(should, names);
  } else if (!partial.empty()) {
    standing.why = "GPU instance " + base::join(partial, ", ") + " is cut into several compute instances";
  } else if (!standing.without_ci.empty()) {
    std::vector<std::string> ids;
    for (unsigned id : standing.without_ci) ids.push_back(std::to_string(id));
    standing.verdict = Standing::Verdict::ci_missing;
    standing.why = "GPU instance " + base::join(ids, ", ") + " has no compute instance";
    std::sort(standing.without_ci.begin(), standing.without_ci.end());
    return standing;
  } else {
    standing.verdict = Standing::Verdict::right;
  }
  standing.without_ci.clear();
  return standing;
}

std::string show(const GpuPlan& plan) {
  std::vector<std::string> parts;
  if (plan.clear) parts.push_back("destroy the instances that are there");
  if (plan.switch_on) parts.push_back("MIG mode on");
  if (plan.switch_off) parts.push_back("MIG mode off");
  if (plan.build) parts.push_back("create " + show(plan.placements));
  if (!plan.without_ci.empty())
    parts.push_back("create " + std::to_string(plan.without_ci.size()) + " missing compute instances");
  if (parts.empty()) parts.push_back("right as it is, not touched");
  return plan.gpu.show() + ": " + base::join(parts, ", ") + (plan.why.empty() ? "" : " (" + plan.why + ")");
}

namespace {

bool has_instances(const Seen& seen, unsigned gpu) {
  return std::any_of(seen.gpu_instances.begin(), seen.gpu_instances.end(),
                     [&](const GpuInstance& i) { return i.gpu == gpu; });
}

}  // namespace

std::optional<std::vector<GpuPlan>> already_right(const std::vector<Wanted>& wanted, const Seen& seen) {
  std::vector<GpuPlan> plans;
  for (const Wanted& want : wanted) {
    GpuPlan plan;
    plan.gpu = want.gpu;
    plan.layout = want.layout;
    if (want.layout.kind == Layout::Kind::off) {
      if (!want.gpu.off()) return std::nullopt;
    } else {
      if (!want.gpu.on()) return std::nullopt;
      auto resolved = resolve(want.layout, names_of(seen.gpu_instances, want.gpu.index), want.gpu.show());
      if (!resolved) return std::nullopt;
      if (compare(*resolved, seen.gpu_instances, seen.compute_instances, want.gpu.index).verdict !=
          Standing::Verdict::right)
        return std::nullopt;
      plan.wanted = std::move(*resolved);
    }
    plans.push_back(std::move(plan));
  }
  return plans;
}

Outlook outlook(const std::vector<GpuPlan>& plans, std::vector<Gpu> gpus, std::vector<GpuInstance> instances) {
  for (const GpuPlan& plan : plans) {
    for (Gpu& gpu : gpus) {
      if (gpu.index != plan.gpu.index || gpu.current == Mode::unsupported) continue;
      gpu.current = gpu.pending = plan.layout.kind == Layout::Kind::off ? Mode::disabled : Mode::enabled;
    }
    if (plan.clear || plan.build || plan.switch_on || plan.switch_off)
      std::erase_if(instances, [&](const GpuInstance& instance) { return instance.gpu == plan.gpu.index; });
    if (!plan.build) continue;
    for (const Placement& placement : plan.placements)
      instances.push_back(
          {plan.gpu.index, placement.profile.name, placement.profile.id, 0, placement.start, placement.size});
  }
  return {std::move(gpus), std::move(instances)};
}

base::Result<std::vector<GpuPlan>> plan(const std::vector<Wanted>& wanted, const Boards& boards, const Seen& seen) {
  std::vector<GpuPlan> plans;
  for (const Wanted& want : wanted) {
    GpuPlan plan;
    plan.gpu = want.gpu;
    plan.layout = want.layout;
    const unsigned index = want.gpu.index;
    const bool instances = has_instances(seen, index);
    if (want.layout.kind == Layout::Kind::off) {
      if (!want.gpu.off()) {
        plan.switch_off = true;
        plan.clear = instances;
        plan.why =
            "MIG mode is " + std::string(word(want.gpu.current)) + ", pending " + std::string(word(want.gpu.pending));
      }
      plans.push_back(std::move(plan));
      continue;
    }
    const auto board = boards.find(index);
    if (board == boards.end()) {
      return Error{ExitCode::surroundings,
                   "`nvidia-smi mig -lgip` lists no profiles of " + want.gpu.show() + " (" + want.gpu.name +
                       ", driver " + want.gpu.driver + ")",
                   "this GPU cannot be split: select others, or --if-supported"};
    }
    auto resolved = resolve(want.layout, names_of(board->second), want.gpu.show());
    if (!resolved) return resolved.error();
    plan.wanted = std::move(*resolved);
    auto placements = place(plan.wanted, board->second, want.gpu.show());
    if (!placements) return placements.error();
    if (!want.gpu.on()) {
      plan.switch_on = true;
      plan.why =
          "MIG mode is " + std::string(word(want.gpu.current)) + ", pending " + std::string(word(want.gpu.pending));
      plan.clear = instances;  // current Enabled, pending Disabled
      plan.build = !placements->empty();
      plan.placements = std::move(*placements);
      plans.push_back(std::move(plan));
      continue;
    }
    Standing standing = compare(plan.wanted, seen.gpu_instances, seen.compute_instances, index);
    plan.why = standing.why;
    switch (standing.verdict) {
      case Standing::Verdict::right: break;
      case Standing::Verdict::ci_missing: plan.without_ci = std::move(standing.without_ci); break;
      case Standing::Verdict::wrong:
        plan.clear = instances;
        plan.build = !placements->empty();
        plan.placements = std::move(*placements);
        break;
    }
    plans.push_back(std::move(plan));
  }
  return plans;
}

}  // namespace mig
