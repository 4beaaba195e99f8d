// nvidia-smi, driven: questions in one class, changes in another, so that what a step may do stands in its signature.
// Every call has a limit and names GPUs by bus id; no call is made beside another (two at once hold each other up).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "host/clock.h"
#include "host/log.h"
#include "host/plan.h"
#include "host/processes.h"
#include "mig/answer.h"
#include "mig/gpu.h"
#include "mig/instances.h"
#include "mig/plan.h"
#include "mig/profiles.h"

namespace mig {

// Answers that only read.
class Smi {
 public:
  Smi(host::Processes& processes, std::string tool, host::Deadline deadline)
      : processes_(processes), tool_(std::move(tool)), deadline_(deadline) {}

  struct Gpus {
    Answer answer = Answer::failed;
    std::vector<Gpu> gpus;  // where ok
    base::Error error;      // where not
    bool unkillable = false;
  };
  // The one query for all GPUs, within `limit`.
  Gpus gpus(host::milliseconds limit);
  base::Result<Boards> boards();  // -lgip and -lgipp
  base::Result<Seen> seen();      // -lgi, and -lci where there is any GPU instance
  base::Result<std::vector<GpuInstance>> gpu_instances();
  base::Result<std::vector<ComputeInstance>> compute_instances();
  base::Result<std::vector<MigDevice>> devices();  // -L, which also makes the caps files that are missing
  base::Result<std::vector<ComputeApp>> compute_apps();

  struct Call {
    Answer answer = Answer::failed;
    host::Exit exit;
    std::string shown;
    std::string not_started;  // why, where the time that is left does not allow it (answer: timed_out)
  };
  // Changes go through here as well.
  Call call(const std::vector<std::string>& arguments, host::milliseconds limit);

  const host::Deadline& deadline() const { return deadline_; }

 private:
  host::Processes& processes_;
  std::string tool_;
  host::Deadline deadline_;
};

struct ModeChange {
  std::vector<Gpu> gpus;  // the whole node, asked again after the call
  std::string said;       // what the call printed: never the verdict, only its reason
  bool is_real = true;    // not of a dry run
};

struct GpuOutcome {
  std::string bus_id;
  bool done = false;
  std::string error;                             // why not
  base::ExitCode code = base::ExitCode::change;  // of that error
  std::string cure;                              // and what to do
  bool emptied = false;                          // rolled back: no instance is left
};

// The node after creations.
struct ReadBack {
  std::vector<GpuInstance> gpu_instances;
  std::vector<MigDevice> devices;
};

struct Built {
  std::vector<GpuOutcome> outcomes;        // of the GPUs that were to be changed
  std::vector<GpuInstance> gpu_instances;  // of the whole node, read back
  bool is_real = true;                     // not of a dry run
};

// Changes, each with its proof.
class MigChanges {
 public:
  virtual ~MigChanges() = default;
  // `modprobe nvidia`, once, within `limit`. Error: surroundings where this kernel has no such module; other failures
  // are only told: empty where it went well.
  virtual base::Result<std::string> load_driver(host::milliseconds limit) = 0;
  // One call for these GPUs, then the query. Error: change (refused), surroundings (no permission, no MIG), time_out.
  virtual base::Result<ModeChange> set_mode(const std::vector<Gpu>& gpus, bool on) = 0;
  // Destroys all instances of one GPU, compute instances first, and looks whether it is empty.
  virtual base::Status clear(const Gpu& gpu) = 0;
  // Makes every plan's instances: GPUs that are empty and get the same places in one call, others one after the other.
  // Reads all back; a GPU that the common call left incomplete is cleared and made by itself, and what did not come out
  // right then is emptied.
  // Error: time_out only, after which nothing more may be changed.
  virtual base::Result<Built> build(const std::vector<GpuPlan>& plans) = 0;
};

// What changing needs besides nvidia-smi itself.
class RealMigChanges : public MigChanges {
 public:
  RealMigChanges(Smi& smi, host::Processes& processes, host::Clock& clock, host::Log& log, std::string modprobe,
                 host::milliseconds reserve, host::milliseconds least)
      : smi_(smi),
        processes_(processes),
        clock_(clock),
        log_(log),
        modprobe_(std::move(modprobe)),
        reserve_(reserve),
        least_(least) {}

  base::Result<std::string> load_driver(host::milliseconds limit) override;
  base::Result<ModeChange> set_mode(const std::vector<Gpu>& gpus, bool on) override;
  base::Status clear(const Gpu& gpu) override;
  base::Result<Built> build(const std::vector<GpuPlan>& plans) override;

 private:
  // A changing call: ends `reserve` before the deadline, so that time is left to ask what became of it. With less than
  // `least` until then it is not begun: one that is killed half-way is worse than none.
  Smi::Call change(const std::vector<std::string>& arguments, host::milliseconds limit);
  base::Error hung(const Smi::Call& call);
  base::Status destroy(const std::vector<std::string>& arguments);
  base::Status create(const std::vector<const GpuPlan*>& alike);
  base::Result<ReadBack> read_back();

  Smi& smi_;
  host::Processes& processes_;
  host::Clock& clock_;
  host::Log& log_;
  std::string modprobe_;  // path; empty: there is none
  host::milliseconds reserve_;
  host::milliseconds least_;
};

// Changes nothing: writes down the calls and answers as if they had worked.
class DryMigChanges : public MigChanges {
 public:
  explicit DryMigChanges(host::Plan& plan) : plan_(plan) {}
  // What was read, for the answers to start from.
  void start_from(std::vector<Gpu> gpus, std::vector<GpuInstance> instances) {
    gpus_ = std::move(gpus);
    instances_ = std::move(instances);
  }

  base::Result<std::string> load_driver(host::milliseconds limit) override;
  base::Result<ModeChange> set_mode(const std::vector<Gpu>& gpus, bool on) override;
  base::Status clear(const Gpu& gpu) override;
  base::Result<Built> build(const std::vector<GpuPlan>& plans) override;

 private:
  host::Plan& plan_;
  std::vector<Gpu> gpus_;
  std::vector<GpuInstance> instances_;
};

// Waits until the driver answers with as many GPUs as are expected (`expected`, else the functions on the PCI bus).
// Loads the driver once. Error: surroundings, or time_out where calls hang.
base::Result<std::vector<Gpu>> wait_for_gpus(Smi& smi, MigChanges& changes, const std::vector<std::string>& on_the_bus,
                                             std::optional<unsigned> expected, const host::Deadline& deadline,
                                             host::Clock& clock);

}  // namespace mig
