#include "flow/findings.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/text.h"

namespace flow {

namespace {

constexpr std::size_t longest_text = 4000;

std::string_view colour_of(Judgement judgement) {
  switch (judgement) {
    case Judgement::ok: return "\033[32m";
    case Judgement::warn: return "\033[33m";
    case Judgement::fail: return "\033[31m";
    case Judgement::skipped: break;
  }
  return "\033[2m";
}

std::size_t count(const Findings& findings, Judgement judgement) {
  const auto& all = findings.all();
  return static_cast<std::size_t>(
      std::count_if(all.begin(), all.end(), [&](const Finding& finding) { return finding.judgement == judgement; }));
}

}  // namespace

std::string_view show(Judgement judgement) {
  switch (judgement) {
    case Judgement::ok: return "ok";
    case Judgement::warn: return "warn";
    case Judgement::fail: return "fail";
    case Judgement::skipped: return "skipped";
  }
  return "";
}

void Findings::ok(std::string subject, std::string check, std::string found) {
  add({std::move(subject), std::move(check), Judgement::ok, std::move(found), ""});
}

void Findings::warn(std::string subject, std::string check, std::string found, std::string cure) {
  add({std::move(subject), std::move(check), Judgement::warn, std::move(found), std::move(cure)});
}

void Findings::fail(std::string subject, std::string check, std::string found, std::string cure) {
  add({std::move(subject), std::move(check), Judgement::fail, std::move(found), std::move(cure)});
}

void Findings::skip(std::string subject, std::string check, std::string why) {
  add({std::move(subject), std::move(check), Judgement::skipped, std::move(why), ""});
}

std::string Findings::first_cause() const {
  if (!first_cause_.empty()) return first_cause_;
  for (const Judgement wanted : {Judgement::fail, Judgement::warn}) {
    for (const Finding& finding : all_) {
      if (finding.judgement == wanted)
        return finding.subject + ", " + finding.check + ": " + finding.found +
               (finding.cure.empty() ? "" : "; " + finding.cure);
    }
  }
  return "";
}

int Findings::exit_code(bool strict) const {
  for (const Finding& finding : all_) {
    if (finding.judgement == Judgement::fail || (strict && finding.judgement == Judgement::warn)) return 1;
  }
  return 0;
}

std::string to_text(const Findings& findings, bool colour, bool strict) {
  std::string text;
  const std::string cause = findings.first_cause();
  if (!cause.empty()) text += "first cause: " + base::printable(cause, longest_text) + "\n\n";
  for (const Finding& finding : findings.all()) {
    std::string word(show(finding.judgement));
    word.resize(8, ' ');
    if (colour) word = std::string(colour_of(finding.judgement)) + word + "\033[0m";
    text += word + finding.subject + " " + finding.check + ": " + base::printable(finding.found, longest_text) + "\n";
    if (!finding.cure.empty()) text += "          -> " + base::printable(finding.cure, longest_text) + "\n";
  }
  for (const std::string& attachment : findings.attachments()) text += "\n" + attachment;
  text += "\n" + std::to_string(count(findings, Judgement::fail)) + " failed, " +
          std::to_string(count(findings, Judgement::warn)) + " warned, " +
          std::to_string(count(findings, Judgement::ok)) + " ok, " +
          std::to_string(count(findings, Judgement::skipped)) + " skipped";
  return text + (strict ? " (--strict: a warning counts as a fail)\n" : "\n");
}

std::string to_json(const Findings& findings, bool strict) {
  using Json = nlohmann::ordered_json;
  Json checks = Json::array();
  for (const Finding& finding : findings.all()) {
    checks.push_back({{"name", finding.subject + " " + finding.check},
                      {"subject", finding.subject},
                      {"check", finding.check},
                      {"result", show(finding.judgement)},
                      {"found", base::printable(finding.found, longest_text)},
                      {"cure", base::printable(finding.cure, longest_text)}});
  }
  Json data = Json::object();
  for (const auto& [name, text] : findings.data()) {
    // A discarded value would make the whole object no JSON, and take the checks along.
    Json parsed = Json::parse(text, nullptr, false);
    data[name] = parsed.is_discarded() ? Json(nullptr) : std::move(parsed);
  }
  const Json json = {{"schema", 1},
                     {"command", "validate"},
                     {"exit_code", findings.exit_code(strict)},
                     {"first_cause", base::printable(findings.first_cause(), longest_text)},
                     {"checks", checks},
                     {"data", data}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string cannot_run_json(const base::Error& error) {
  using Json = nlohmann::ordered_json;
  const std::string what = base::printable(error.what, longest_text);
  const std::string cure = base::printable(error.cure, longest_text);
  const Json json = {{"schema", 1},
                     {"command", "validate"},
                     {"exit_code", base::to_int(error.code)},
                     {"first_cause", what},
                     {"checks", Json::array()},
                     {"data", Json::object()},
                     {"error", {{"code", base::to_int(error.code)}, {"what", what}, {"cure", cure}}}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace flow
