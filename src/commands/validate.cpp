#include "commands/validate.h"

#include "commands/validate_cluster.h"
#include "commands/validate_imex.h"
#include "flow/findings.h"

namespace commands {

int validate(Context& context, const ValidateOptions& options, const ValidateForm& form, std::string& out) {
  flow::Findings findings;
  const bool everything = options.what == ValidateWhat::everything;
  if (options.what == ValidateWhat::imex || (everything && imex_applies(context))) validate_imex(context, findings);
  if (options.what == ValidateWhat::cluster || everything) validate_cluster(context, findings);
  out = form.json ? flow::to_json(findings, options.strict) : flow::to_text(findings, form.colour, options.strict);
  return findings.exit_code(options.strict);
}

}  // namespace commands
