// What a run of mig-setup leaves: the status file, the words on stdout, the exit code.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "commands/context.h"
#include "commands/mig_setup.h"
#include "mig/layout.h"
#include "mig/smi.h"
#include "mig/status.h"

namespace commands {

class MigReport {
 public:
  MigReport(const Context& context, const MigSetupOptions& options);

  // The lock is held. Writes "running" into the status file, unless an earlier run of this boot left one that stands:
  // that one is true until something is touched. Nothing in a dry run.
  void begin(Context& context);
  // Just before the first change: "running" from here on, so that a killed run is no good one. Nothing in a dry run.
  void touches(Context& context);

  void wants(const std::vector<mig::Rule>& rules);
  void wants(const std::vector<mig::Wanted>& wanted);
  void sees(const std::vector<mig::Gpu>& gpus);
  void sees(const std::vector<mig::GpuInstance>& instances);
  void planned(const std::vector<mig::GpuPlan>& plans);
  void pending(const std::vector<mig::Gpu>& gpus);
  void built(const mig::Built& built);
  void warn(Context& context, const std::string& text);

  // The ends of a run; the exit code. `out` gets the printed form.
  int ended(Context& context, const std::string& result, const std::string& done, std::string& out);
  int failed(Context& context, const base::Error& error, std::string& out);
  // Failed before anything was touched and for a reason that is not the node's: wrong words, a GPU in use, no lock. A
  // status of this boot stays as it is; without one it tells why.
  int refused(Context& context, const base::Error& error, std::string& out);
  // The same where another run holds the lock: the status is that one's.
  int untold(Context& context, const base::Error& error, std::string& out);
  // The status file says "rebooting" before it is asked for.
  void rebooting(Context& context, const base::Error& error);

 private:
  void look(Context& context);
  void write(Context& context);
  void name_gres(Context& context);
  std::string printed() const;
  mig::GpuStatus* of(const std::string& bus_id);

  mig::Status status_;
  mig::Status earlier_;  // of this boot; empty where there is none
  bool looked_ = false;  // for it
  bool stands_ = false;  // there is one
  bool touched_ = false;
  std::vector<mig::Gpu> gpus_;
  std::vector<mig::GpuInstance> instances_;
  MigPrint print_;
  bool keeps_status_;  // --check judges a layout, and is no run of the node
  std::string plan_from_;
  std::vector<std::string> change_;
  std::set<std::string> told_;  // folders that no status is written into
};

// What a person or a program gets on stdout. Empty for the forms of the AWS call where there is no device for Slurm: an
// empty Gres is no value that the call takes.
std::string print_form(MigPrint form, const mig::Status& status);
// The warning that belongs beside it.
void note_what_is_printed(Context& context, MigPrint form, const mig::Status& status);

// Lines that tell what going from `before` to `after` means; asks scontrol which nodes are behind, where there is one.
std::vector<std::string> tell_change(Context& context, const std::string& before,
                                     const std::vector<mig::GresEntry>& after);

}  // namespace commands
