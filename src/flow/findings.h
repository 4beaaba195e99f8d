// What validate found: a list of checks, told as text or JSON. The JSON form is an interface (docs/json.md).
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace flow {

enum class Judgement { ok, warn, fail, skipped };

std::string_view show(Judgement judgement);

struct Finding {
  std::string subject;  // imex, mig, job, cluster
  std::string check;    // "driver version", "node list": an interface, two or three lower-case words
  Judgement judgement = Judgement::ok;
  std::string found;  // what was found, on what
  std::string cure;   // what to do; for warn and fail
};

class Findings {
 public:
  void add(Finding finding) { all_.push_back(std::move(finding)); }
  void ok(std::string subject, std::string check, std::string found);
  void warn(std::string subject, std::string check, std::string found, std::string cure);
  void fail(std::string subject, std::string check, std::string found, std::string cure);
  void skip(std::string subject, std::string check, std::string why);
  // Text that stands below the checks (a matrix, the lines to put into slurm.conf); text form only.
  void attach(std::string text) { attachments_.push_back(std::move(text)); }
  // Facts for machines, as JSON text under "data" and this name; JSON form only.
  void set_data(std::string name, std::string json) { data_.emplace_back(std::move(name), std::move(json)); }
  // The one finding that explains the others stands on top. Without this call the first fail does.
  void set_first_cause(std::string text) { first_cause_ = std::move(text); }

  const std::vector<Finding>& all() const { return all_; }
  const std::vector<std::string>& attachments() const { return attachments_; }
  const std::vector<std::pair<std::string, std::string>>& data() const { return data_; }
  std::string first_cause() const;  // empty: nothing is wrong
  // 0, or 1 for a fail (strict: for a warn too).
  int exit_code(bool strict) const;

 private:
  std::vector<Finding> all_;
  std::vector<std::string> attachments_;
  std::vector<std::pair<std::string, std::string>> data_;
  std::string first_cause_;
};

// The first real cause on top, then every check on a line with its cure below it.
std::string to_text(const Findings& findings, bool colour, bool strict);
std::string to_json(const Findings& findings, bool strict);
// The same object where validate itself cannot run: no check, and why.
std::string cannot_run_json(const base::Error& error);

}  // namespace flow
