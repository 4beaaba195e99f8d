// From a wanted layout to what has to be done on each GPU. Pure and deterministic: the same wish on the same board
// gives the same placements, in whatever order a person wrote the profiles.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "mig/gpu.h"
#include "mig/instances.h"
#include "mig/layout.h"
#include "mig/profiles.h"

namespace mig {

struct ProfileName {
  std::string name;
  unsigned id = 0;
};

// An item of a layout found on a board. `drifted`: the driver's name differs from the wanted one.
struct Resolved {
  ProfileName profile;
  unsigned count = 1;
  bool drifted = false;
  std::string written;  // as the person wrote it
};

// By ID, by exact name (any case), else by slices, attributes and memory within 3 %: drivers name one board's profile
// 3g.40gb or 3g.39gb. Error (usage): none or several.
base::Result<std::vector<Resolved>> resolve(const Layout& layout, const std::vector<ProfileName>& board,
                                            const std::string& gpu);

std::vector<ProfileName> names_of(const Board& board);
std::vector<ProfileName> names_of(const std::vector<GpuInstance>& instances, unsigned gpu);

struct Placement {
  ProfileName profile;
  unsigned start = 0;
  unsigned size = 0;
};

// Explicit places for every instance on an empty GPU, largest first. Error (usage): cannot fit, with why.
base::Result<std::vector<Placement>> place(const std::vector<Resolved>& wanted, const Board& board,
                                           const std::string& gpu);

// "9:4,14:0,19:2,19:3", as -cgi takes it.
std::string cgi_argument(const std::vector<Placement>& placements);
// "3g.20gb at 4, 2g.10gb at 0"
std::string show(const std::vector<Placement>& placements);

// What is on one GPU, compared with what should be.
struct Standing {
  enum class Verdict {
    right,
    ci_missing,  // the GPU instances are as wanted, some have no compute instance
    wrong,
  };
  Verdict verdict = Verdict::wrong;
  std::vector<unsigned> without_ci;  // GPU instance IDs
  std::string why;                   // for wrong and ci_missing
};

// Judges one enabled GPU. Places do not matter, only which instances there are; every GPU instance must hold exactly
// one compute instance of its full size.
Standing compare(const std::vector<Resolved>& wanted, const std::vector<GpuInstance>& gpu_instances,
                 const std::vector<ComputeInstance>& compute_instances, unsigned gpu);

// What one GPU needs, decided before the first change.
struct GpuPlan {
  Gpu gpu;
  Layout layout;
  std::vector<Resolved> wanted;       // empty for none and empty
  std::vector<Placement> placements;  // of a rebuild
  bool switch_on = false;
  bool switch_off = false;
  bool clear = false;                // instances are there that must go first
  bool build = false;                // create `placements`
  std::vector<unsigned> without_ci;  // create only compute instances in these
  std::string why;                   // why it is not right as it is; empty: it is right

  bool untouched() const { return !switch_on && !switch_off && !clear && !build && without_ci.empty(); }
};

// One line for people: "GPU 0 (..): MIG on, create 3g.20gb at 4".
std::string show(const GpuPlan& plan);

// What is on the whole node.
struct Seen {
  std::vector<GpuInstance> gpu_instances;
  std::vector<ComputeInstance> compute_instances;
};

// Already right without asking for profiles? The wish is resolved against the names of what is there, which are the
// driver's own. nullopt: not right, or not to be told so simply.
std::optional<std::vector<GpuPlan>> already_right(const std::vector<Wanted>& wanted, const Seen& seen);

// The node as these plans leave it.
struct Outlook {
  std::vector<Gpu> gpus;
  std::vector<GpuInstance> instances;
};
Outlook outlook(const std::vector<GpuPlan>& plans, std::vector<Gpu> gpus, std::vector<GpuInstance> instances);

// The whole plan. Error (usage): a layout that some GPU cannot have.
base::Result<std::vector<GpuPlan>> plan(const std::vector<Wanted>& wanted, const Boards& boards, const Seen& seen);

}  // namespace mig
