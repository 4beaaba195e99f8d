#include "mig/status.h"

#include <algorithm>
#include <ctime>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "host/trusted_file.h"
#include "mig/strict_text.h"
#include "site/site.h"

namespace mig {

using base::Error;
using base::ExitCode;

namespace {

using Json = nlohmann::ordered_json;

constexpr std::uint64_t schema_number = 1;
constexpr std::size_t largest_status = 1U << 20U;  // a status of 16 GPUs has about 30 KiB

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
  json["schema"] = schema_number;
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
  const auto damaged = [](const std::string& why) {
    return Error{ExitCode::surroundings, "the status file of mig-setup is damaged: " + why,
                 "run `gpu-prolog mig-setup` with this node's layout again"};
  };
  if (base::trim(text).empty()) return damaged("it is empty");
  const auto parsed = parse_strict_json(text);
  if (!parsed) return damaged(parsed.error().what);
  const Json& json = *parsed;
  if (!json.is_object() || text_of(json, "command") != "mig-setup") return damaged("it is no status of mig-setup");
  const auto schema = json.find("schema");
  if (schema == json.end() || !schema->is_number_unsigned()) return damaged("it has no schema number");
  if (schema->get<std::uint64_t>() != schema_number) {
    return damaged("its schema is " + std::to_string(schema->get<std::uint64_t>()) + ", this gpu-prolog knows " +
                   std::to_string(schema_number) + " only");
  }
  const auto code = json.find("exit_code");
  if (code == json.end() || !code->is_number_unsigned() || code->get<std::uint64_t>() > 255)
    return damaged("it has no exit code");
  for (const char* key : {"boot_id", "result", "message"}) {
    if (text_of(json, key).empty() && (std::string_view(key) != "boot_id" || !json.contains(key)))
      return damaged("it has no " + std::string(key));
  }
  Status status;
  status.version = text_of(json, "version");
  status.boot_id = text_of(json, "boot_id");
  status.time = text_of(json, "time");
  status.result = text_of(json, "result");
  status.exit_code = code->get<int>();
  status.message = text_of(json, "message");
  status.cure = text_of(json, "cure");
  status.layout = text_of(json, "layout");
  // Anything but `false` is one: a status that is written is of a real run and has no such key.
  const auto dry = json.find("dry_run");
  status.dry_run = dry != json.end() && *dry != false;
  const auto gpus = json.find("gpus");
  if (gpus == json.end() || !gpus->is_array()) return damaged("it has no list 'gpus'");
  for (const Json& entry : *gpus) {
    if (!entry.is_object()) return damaged("an entry of 'gpus' is no object");
    GpuStatus gpu;
    gpu.bus_id = text_of(entry, "bus_id");
    gpu.uuid = text_of(entry, "uuid");
    gpu.name = text_of(entry, "name");
    gpu.mode_current = text_of(entry, "mode_current");
    gpu.mode_pending = text_of(entry, "mode_pending");
    gpu.layout = text_of(entry, "layout");
    gpu.state = text_of(entry, "state");
    gpu.error = text_of(entry, "error");
    if (const auto instances = entry.find("instances"); instances != entry.end()) {
      if (!instances->is_array()) return damaged("the 'instances' of a GPU are no list");
      for (const Json& instance : *instances) {
        if (!instance.is_object()) return damaged("an instance of a GPU is no object");
        ProfileName named{text_of(instance, "profile"), 0};
        if (const auto id = instance.find("id"); id != instance.end() && id->is_number_unsigned())
          named.id = id->get<unsigned>();
        gpu.instances.push_back(std::move(named));
      }
    }
    if (const auto index = entry.find("index"); index != entry.end() && index->is_number_unsigned())
      gpu.index = index->get<unsigned>();
    status.gpus.push_back(std::move(gpu));
  }
  auto gres = parse_gres(text_of(json, "gres"));
  if (gres) status.gres = std::move(*gres);
  return status;
}

namespace {

bool unfinished(const GpuStatus& gpu) {
  return gpu.state == "failed" || gpu.state == "pending" || gpu.state == "planned";
}

}  // namespace

bool stands(const base::Result<std::optional<Status>>& found, std::string_view boot_id) {
  if (!found || !*found || boot_id.empty() || (*found)->boot_id != boot_id) return false;
  return (*found)->exit_code != base::to_int(ExitCode::usage);
}

std::vector<GpuStatus> left_undone(const Status& now, const Status& earlier) {
  std::vector<GpuStatus> undone;
  for (const GpuStatus& before : earlier.gpus) {
    if (!unfinished(before)) continue;
    const auto same = std::find_if(now.gpus.begin(), now.gpus.end(),
                                   [&](const GpuStatus& gpu) { return gpu.bus_id == before.bus_id; });
    if (same != now.gpus.end() && same->state != "unselected" && same->state != "unknown") continue;
    GpuStatus told = same == now.gpus.end() ? before : *same;
    if (told.layout.empty()) told.layout = before.layout;
    told.state = before.state == "pending" ? "pending" : "failed";
    told.error = before.error.empty() ? "an earlier run of this boot did not finish it" : before.error;
    undone.push_back(std::move(told));
  }
  return undone;
}

Status with(Status now, const std::vector<GpuStatus>& undone) {
  for (const GpuStatus& gpu : undone) {
    const auto same =
        std::find_if(now.gpus.begin(), now.gpus.end(), [&](const GpuStatus& one) { return one.bus_id == gpu.bus_id; });
    if (same == now.gpus.end()) {
      now.gpus.push_back(gpu);
    } else {
      *same = gpu;
    }
  }
  return now;
}

base::Result<std::vector<Rule>> rules_of(const Status& status) {
  std::vector<Rule> rules;
  for (const GpuStatus& gpu : status.gpus) {
    if (gpu.layout.empty() || gpu.state == "unsupported") continue;
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

base::Result<std::optional<Status>> read_status(const host::Files& files, bool of_root) {
  for (std::string_view place : {site::mig_status_run, site::mig_status_lib}) {
    const std::string path(place);
    const auto refused = [&](const std::string& why) {
      return Error{ExitCode::surroundings, "the status of mig-setup is not to be believed: " + why,
                   "see who made it so, remove it, and run `gpu-prolog mig-setup` with this node's layout again"};
    };
    const auto there = files.status(path);
    if (!there) return refused(there.error().what);
    if (!*there) continue;
    if (const std::string fault = host::file_fault(files, path, of_root); !fault.empty()) return refused(fault);
    const auto text = files.read(path, largest_status);
    if (!text) return refused(text.error().what);
    auto parsed = parse_status(*text);
    if (!parsed) return Error{ExitCode::surroundings, parsed.error().what + " (" + path + ")", parsed.error().cure};
    return std::optional<Status>(std::move(*parsed));
  }
  return std::optional<Status>();
}

namespace {

// What cannot be of a GPU after a run that ended well; empty: nothing.
std::string fault_of(const GpuStatus& gpu) {
  if (gpu.state != "right" && gpu.state != "unselected" && gpu.state != "unsupported")
    return "is '" + base::printable(gpu.state, 40) + "'";
  const bool on = gpu.mode_current == word(Mode::enabled);
  const std::string modes =
      base::printable(gpu.mode_current, 40) + ", pending " + base::printable(gpu.mode_pending, 40);
  if (!on && !gpu.instances.empty()) return "has instances with its MIG mode " + modes;
  if (gpu.state != "right") return "";
  if (gpu.layout.empty()) return "is 'right' without a layout";
  const bool split = gpu.layout != "none";
  if (gpu.mode_current != gpu.mode_pending || on != split)
    return "is 'right' with its MIG mode " + modes + " and the layout " + base::printable(gpu.layout, 200);
  if (split && gpu.layout != "empty" && gpu.instances.empty()) return "is 'right' without any instance";
  return "";
}

}  // namespace

GateVerdict gate(const base::Result<std::optional<Status>>& found, std::string_view boot_id) {
  const std::string again = "run `gpu-prolog mig-setup` with this node's layout, then start slurmd";
  if (!found) return {false, found.error().what, found.error().cure};
  if (!*found) return {false, "mig-setup has not run in this boot", again};
  const Status& status = **found;
  if (boot_id.empty() || status.boot_id != boot_id)
    return {false, "the last mig-setup was in another boot (" + base::printable(status.time, 40) + ")", again};
  if (status.result == "running")
    return {false, "mig-setup began at " + base::printable(status.time, 40) + " and did not finish", again};
  if (status.exit_code != 0) {
    return {false,
            "mig-setup ended with exit code " + std::to_string(status.exit_code) + ": " +
                base::printable(status.message, 600),
            status.cure.empty() ? again : base::printable(status.cure, 400)};
  }
  const auto contradicts = [&](const std::string& what) {
    return GateVerdict{false, "the status of mig-setup contradicts itself: exit code 0, but " + what, again};
  };
  // A run that ended well says so in every place; where one says otherwise, no run of ours wrote this.
  if (status.dry_run) return contradicts("it is of a dry run");
  const bool unsupported = status.result == "unsupported";
  if (status.result != "changed" && status.result != "unchanged" && !unsupported)
    return contradicts("its result is '" + base::printable(status.result, 60) + "'");
  bool any_right = false;
  for (const GpuStatus& gpu : status.gpus) {
    const std::string name = "GPU " + std::to_string(gpu.index) + " (" + base::printable(gpu.bus_id, 40) + ")";
    if (gpu.state == "failed" || gpu.state == "pending") {
      return {false,
              name + " is '" + gpu.state +
                  "' from an earlier mig-setup of this boot, and the last one was not for it: " +
                  base::printable(gpu.error, 400),
              "run `gpu-prolog mig-setup` with a layout for this GPU too, then start slurmd"};
    }
    if (const std::string fault = fault_of(gpu); !fault.empty()) return contradicts(name + " " + fault);
    any_right = any_right || gpu.state == "right";
  }
  if (any_right == unsupported)
    return contradicts(unsupported ? "with the result 'unsupported' a GPU is 'right'"
                                   : "none of its 'gpus' is 'right'");
  return {true, base::printable(status.message, 400), ""};
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
