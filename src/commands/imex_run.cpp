#include "commands/imex_run.h"

#include <cerrno>
#include <utility>

#include "base/text.h"

namespace commands {

std::optional<slurm::Conf> find_conf(const Context& context) {
  auto conf = slurm::own_conf(context.host.files, context.host.environment.get_or("SLURM_CONF", ""));
  host::Log& log = context.run.log();
  if (conf) {
    for (const std::string& file : conf->unreadable) log.warn("a part of slurm.conf is left out: " + file);
    return std::move(*conf);
  }
  if (conf.error().os_error == ENOENT) {
    log.debug(conf.error().what + "; going on without it");
  } else {
    log.warn(conf.error().what + "; going on with Slurm's defaults; " + conf.error().cure);
  }
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
