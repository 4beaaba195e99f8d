#include "commands/imex_run.h"

#include "base/text.h"

namespace commands {

std::optional<slurm::Conf> find_conf(const Context& context) {
  auto conf = slurm::own_conf(context.host.files, context.host.environment.get_or("SLURM_CONF", ""));
  if (conf) return *conf;
  context.run.log().debug(conf.error().what + "; going on without it");
  return std::nullopt;
}

imex::RunIdentity identity_of(const slurm::Job& job) { return {job.id, job.sluid, job.restart_count, job.start_time}; }

std::string show_run(const imex::RunIdentity& run) {
  std::string text = "job " + base::printable(run.job_id, 40);
  if (!run.restart_count.empty() && run.restart_count != "0")
    text += " (restart " + base::printable(run.restart_count, 20) + ")";
  return text;
}

}  // namespace commands
