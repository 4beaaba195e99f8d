#include "flow/report.h"

#include <nlohmann/json.hpp>

#include "base/text.h"

namespace flow {

namespace {

std::string_view word(StepRecord::Outcome outcome) {
  switch (outcome) {
    case StepRecord::Outcome::done: return "done";
    case StepRecord::Outcome::failed: return "failed";
    case StepRecord::Outcome::would: return "would";
  }
  return "";
}

}  // namespace

std::string one_line(const base::Error& error) {
  const std::string what = base::printable(error.what, 1500);
  return error.cure.empty() ? what : what + "; " + base::printable(error.cure, 500);
}

std::string to_json(const Report& report) {
  using Json = nlohmann::ordered_json;
  Json steps = Json::array();
  for (const StepRecord& step : report.steps) {
    steps.push_back({{"name", step.name},
                     {"outcome", word(step.outcome)},
                     {"detail", base::printable(step.detail, 4000)},
                     {"took_ms", step.took.count()}});
  }
  Json json = {{"schema", 1},
               {"command", report.command},
               {"job", report.job.empty() ? Json(nullptr) : Json(base::printable(report.job))},
               {"dry_run", report.dry_run},
               {"exit_code", report.exit_code},
               {"summary", base::printable(report.summary, 4000)},
               {"steps", steps},
               {"warnings", report.warnings},
               {"error", nullptr}};
  if (report.dry_run) json["planned"] = report.planned;
  if (report.error) {
    json["error"] = {{"code", base::to_int(report.error->code)},
                     {"what", base::printable(report.error->what, 4000)},
                     {"cure", base::printable(report.error->cure, 4000)},
                     {"shared", report.error->blame == base::Blame::shared}};
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace flow
