#include "mig/strict_text.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <map>
#include <set>
#include <sstream>
#include <vector>

#include "base/text.h"

namespace mig {

using base::Error;
using base::ExitCode;

namespace {

using Json = nlohmann::ordered_json;

std::string at(const YAML::Mark& mark) { return " (line " + std::to_string(mark.line + 1) + ")"; }

// Watches the events of the whole text, and not the finished tree: there an alias stands for all that it names, so that
// a few lines can make a tree without end.
class Watch : public YAML::EventHandler {
 public:
  std::string fault;  // the first; empty: none

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ == 2) tell("a second document begins" + at(mark));
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t) override {
    static const std::string null = "~";
    node(mark, &null);
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto known = scalars_.find(anchor);
    node(mark, known == scalars_.end() ? nullptr : &known->second);
  }
  void OnScalar(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor, const std::string& value) override {
    if (anchor != 0) scalars_[anchor] = value;
    node(mark, &value);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {
    node(mark, nullptr);
    open_.push_back({false, false, {}});
  }
  void OnSequenceEnd() override { open_.pop_back(); }
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {
    node(mark, nullptr);
    open_.push_back({true, true, {}});
  }
  void OnMapEnd() override { open_.pop_back(); }

 private:
  struct Open {
    bool is_map = false;
    bool key_next = false;
    std::set<std::string> keys;
  };

  void tell(const std::string& what) {
    if (fault.empty()) fault = what;
  }
  void node(const YAML::Mark& mark, const std::string* scalar) {
    if (open_.empty() || !open_.back().is_map) return;
    Open& map = open_.back();
    if (map.key_next && scalar != nullptr && !map.keys.insert(*scalar).second)
      tell("the key '" + base::printable(*scalar, 60) + "' stands twice in one map" + at(mark));
    map.key_next = !map.key_next;
  }

  int documents_ = 0;
  std::vector<Open> open_;
  std::map<YAML::anchor_t, std::string> scalars_;
};

}  // namespace

base::Result<Json> parse_strict_json(const std::string& text) {
  constexpr std::size_t deepest = 32;  // a layout file has 4, a status 5
  if (base::nests_deeper_than(text, deepest))
    return Error{ExitCode::usage, "it is nested more than " + std::to_string(deepest) + " deep", ""};
  // The parser takes a NUL for the end of the text and would not look at what follows.
  if (text.find('\0') != std::string::npos)
    return Error{ExitCode::usage, "it is no valid JSON: there is a NUL in it", ""};
  std::vector<std::set<std::string>> open;
  std::string twice;
  const auto watch = [&](int, Json::parse_event_t event, Json& parsed) {
    if (event == Json::parse_event_t::object_start) open.emplace_back();
    if (event == Json::parse_event_t::object_end && !open.empty()) open.pop_back();
    if (event == Json::parse_event_t::key && !open.empty() && !open.back().insert(parsed.get<std::string>()).second &&
        twice.empty()) {
      twice = parsed.get<std::string>();
    }
    return true;
  };
  Json json = Json::parse(text, watch, false);
  if (json.is_discarded()) return Error{ExitCode::usage, "it is no valid JSON", ""};
  if (!twice.empty())
    return Error{ExitCode::usage, "the key '" + base::printable(twice, 60) + "' stands twice in one object", ""};
  return json;
}

base::Status check_strict_yaml(const std::string& text) {
  std::istringstream in(text);
  YAML::Parser parser(in);
  Watch watch;
  while (watch.fault.empty() && parser.HandleNextDocument(watch)) {
  }
  if (!watch.fault.empty()) return Error{ExitCode::usage, watch.fault, ""};
  return base::ok();
}

}  // namespace mig
