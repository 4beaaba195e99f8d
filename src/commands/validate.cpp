#include "commands/validate.h"

#include "commands/validate_cluster.h"
#include "commands/validate_imex.h"
#include "commands/validate_job.h"
#include "commands/validate_mig.h"
#include "commands/validate_srun.h"
#include "flow/findings.h"

namespace commands {

int validate(Context& context, const ValidateOptions& options, const ValidateForm& form, std::string& out) {
  flow::Findings findings;
  const bool everything = options.what == ValidateWhat::everything;
  // Where validate itself cannot run: no finding about the node.
  const auto cannot_run = [&](const base::Error& error) {
    context.run.report().error = error;
    context.run.report().summary = "failed: " + error.what;
    if (form.json) out = flow::cannot_run_json(error);
    return base::to_int(error.code);
  };
  if (options.srun) {
    if (options.what != ValidateWhat::imex) {
      return cannot_run({base::ExitCode::usage, "--srun goes with validate imex", "gpu-prolog validate imex --srun"});
    }
    if (auto done = validate_imex_by_srun(context, findings); !done) return cannot_run(done.error());
  } else if (options.what == ValidateWhat::imex || (everything && imex_applies(context))) {
    validate_imex(context, findings);
  }
  if (options.what == ValidateWhat::mig || (everything && mig_applies(context, options.mig))) {
    if (auto done = validate_mig(context, options.mig, findings); !done) return cannot_run(done.error());
  }
  if (options.what == ValidateWhat::job || (everything && job_applies(context))) {
    if (auto done = validate_job(context, options.job, findings); !done) return cannot_run(done.error());
  }
  if (options.what == ValidateWhat::cluster || everything) validate_cluster(context, findings);
  out = form.json ? flow::to_json(findings, options.strict) : flow::to_text(findings, form.colour, options.strict);
  return findings.exit_code(options.strict);
}

}  // namespace commands
