#include "mig/status.h"

#include <ctime>
#include <nlohmann/json.hpp>

#include "base/text.h"

namespace mig {

using base::Error;
using base::ExitCode;

namespace {

using Json = nlohmann::ordered_json;

// Text from tools and files into JSON: what is no UTF-8 would make dump() throw.
std::string safe(const std::string& text) { return base::printable(text, 2000); }

Json texts(const std::vector<std::string>& values) {
  Json list = Json::array();
  for (const std::string& value : values) list.push_back(safe(value));
  return list;
}

std::string text_of(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_string() ? found->get<std::string>() : "";
}

}  // namespace

std::string to_json(const Status& status) {
  Json json;
  json["schema"] = 1;
  json["command"] = "mig-setup";
  json["version"] = safe(status.version);
  json["boot_id"] = safe(status.boot_id);
  json["time"] = status.time;
  json["result"] = status.result;
  json["exit_code"] = status.exit_code;
  json["message"] = safe(status.message);
  json["cure"] = safe(status.cure);
  json["layout"] = safe(status.layout);
  json["gpus"] = Json::array();
  for (const GpuStatus& gpu : status.gpus) {
    Json instances = Json::array();
    for (const ProfileName& instance : gpu.instances) {
      Json entry;
      entry["profile"] = safe(instance.name);
      entry["id"] = instance.id;
      instances.push_back(std::move(entry));
    }
    Json entry;
    entry["index"] = gpu.index;
    entry["bus_id"] = safe(gpu.bus_id);
    entry["uuid"] = safe(gpu.uuid);
    entry["name"] = safe(gpu.name);
    entry["mode_current"] = safe(gpu.mode_current);
    entry["mode_pending"] = safe(gpu.mode_pending);
    entry["layout"] = safe(gpu.layout);
    entry["instances"] = std::move(instances);
    entry["placements"] = texts(gpu.placements);
    entry["state"] = gpu.state;
    entry["error"] = safe(gpu.error);
    json["gpus"].push_back(std::move(entry));
  }
  json["gres"] = safe(gres_text(status.gres));
  json["gres_entries"] = Json::array();
  for (const GresEntry& entry : status.gres) {
    Json one;
    one["type"] = safe(entry.type);
    one["count"] = entry.count;
    json["gres_entries"].push_back(std::move(one));
  }
  json["warnings"] = texts(status.warnings);
  if (status.dry_run) {
    json["dry_run"] = true;
    json["planned"] = texts(status.planned);
  }
  return json.dump(2) + "\n";
}

base::Result<Status> parse_status(const std::string& text) {
  const Json json = Json::parse(text, nullptr, false);
  const Error damaged{ExitCode::surroundings, "the status file of mig-setup is damaged",
                      "run `gpu-prolog mig-setup` again"};
  if (json.is_discarded() || !json.is_object() || text_of(json, "command") != "mig-setup") return damaged;
  const auto code = json.find("exit_code");
  if (code == json.end() || !code->is_number_integer()) return damaged;
  Status status;
  status.version = text_of(json, "version");
  status.boot_id = text_of(json, "boot_id");
  status.time = text_of(json, "time");
  status.result = text_of(json, "result");
  status.exit_code = code->get<int>();
  status.message = text_of(json, "message");
  status.cure = text_of(json, "cure");
  status.layout = text_of(json, "layout");
  if (const auto gpus = json.find("gpus"); gpus != json.end() && gpus->is_array()) {
    for (const Json& entry : *gpus) {
      if (!entry.is_object()) return damaged;
      GpuStatus gpu;
      gpu.bus_id = text_of(entry, "bus_id");
      gpu.uuid = text_of(entry, "uuid");
      gpu.name = text_of(entry, "name");
      gpu.mode_current = text_of(entry, "mode_current");
      gpu.mode_pending = text_of(entry, "mode_pending");
      gpu.layout = text_of(entry, "layout");
      gpu.state = text_of(entry, "state");
      gpu.error = text_of(entry, "error");
      if (const auto index = entry.find("index"); index != entry.end() && index->is_number_unsigned())
        gpu.index = index->get<unsigned>();
      status.gpus.push_back(std::move(gpu));
    }
  }
  auto gres = parse_gres(text_of(json, "gres"));
  if (gres) status.gres = std::move(*gres);
  return status;
}

base::Result<std::vector<Rule>> rules_of(const Status& status) {
  std::vector<Rule> rules;
  for (const GpuStatus& gpu : status.gpus) {
    if (gpu.layout.empty()) continue;
    auto selection = parse_selection(gpu.bus_id);
    if (!selection) return selection.error();
    Layout layout;
    if (gpu.layout == "empty") {
      layout.kind = Layout::Kind::empty;
    } else {
      auto parsed = parse_layout(gpu.layout);
      if (!parsed) return parsed.error();
      layout = std::move(*parsed);
    }
    rules.push_back({std::move(*selection), std::move(layout)});
  }
  if (rules.empty()) return Error{ExitCode::usage, "the status file names no layout", "give --layout"};
  return rules;
}

GateVerdict gate(const std::optional<std::string>& text, std::string_view boot_id) {
  const std::string again = "run `gpu-prolog mig-setup` with this node's layout, then start slurmd";
  if (!text) return {false, "mig-setup has not run in this boot", again};
  const auto status = parse_status(*text);
  if (!status) return {false, status.error().what, status.error().cure};
  if (boot_id.empty() || status->boot_id != boot_id)
    return {false, "the last mig-setup was in another boot (" + base::printable(status->time, 40) + ")", again};
  if (status->result == "running")
    return {false, "mig-setup began at " + base::printable(status->time, 40) + " and did not finish", again};
  if (status->exit_code != 0) {
    return {false,
            "mig-setup ended with exit code " + std::to_string(status->exit_code) + ": " +
                base::printable(status->message, 600),
            status->cure.empty() ? again : base::printable(status->cure, 400)};
  }
  return {true, base::printable(status->message, 400), ""};
}

std::string utc(std::chrono::system_clock::time_point time) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(time);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  char text[40];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

}  // namespace mig
