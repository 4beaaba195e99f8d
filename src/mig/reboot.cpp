#include "mig/reboot.h"

#include <nlohmann/json.hpp>

#include "mig/strict_text.h"
#include "site/site.h"

namespace mig {

std::string to_json(const RebootMarker& marker) {
  nlohmann::ordered_json json;
  json["schema"] = 1;
  json["instance_id"] = marker.instance_id;
  json["boot_id"] = marker.boot_id;
  json["layout"] = marker.layout;
  return json.dump(2) + "\n";
}

std::optional<RebootMarker> parse_marker(const std::string& text) {
  const auto strict = parse_strict_json(text);
  if (!strict || !strict->is_object()) return std::nullopt;
  const nlohmann::ordered_json& json = *strict;
  const auto value = [&](const char* key) -> std::optional<std::string> {
    const auto found = json.find(key);
    if (found == json.end() || !found->is_string()) return std::nullopt;
    return found->get<std::string>();
  };
  const auto instance = value("instance_id");
  const auto boot = value("boot_id");
  if (!instance || !boot || instance->empty() || boot->empty()) return std::nullopt;
  return RebootMarker{*instance, *boot, value("layout").value_or("")};
}

RebootVerdict decide_reboot(const RebootFacts& facts) {
  const std::string marker(site::mig_reboot_marker);
  if (facts.policy == RebootPolicy::no) {
    return {
        false, "no reboot was allowed",
        "reboot the node, or let mig-setup do it early in the boot with --reboot=if-pending (at most once per launch)"};
  }
  if (facts.instance_id.empty()) {
    return {false, "no reboot: this machine's instance id is unknown, so a reboot loop could not be told apart",
            "reboot the node by hand"};
  }
  if (facts.boot_id.empty())
    return {false, "no reboot: the kernel's boot id cannot be read", "reboot the node by hand"};
  if (facts.marker_there && !facts.marker) {
    return {false,
            "no reboot: " + marker + " cannot be read or believed (it must be root's alone), it may be of this launch",
            "reboot the node by hand and remove " + marker};
  }
  if (facts.marker && facts.marker->instance_id == facts.instance_id) {
    if (facts.marker->boot_id == facts.boot_id) {
      return {false, "no second reboot: one was asked for in this boot already",
              "wait for it, or reboot the node by hand"};
    }
    return {
        false, "no second reboot: the node was rebooted for this once and the mode is still pending",
        "this GPU cannot change its MIG mode here: replace the instance. To allow one more reboot remove " + marker};
  }
  if (facts.policy == RebootPolicy::if_pending && facts.slurmd_runs) {
    return {false, "no reboot: slurmd runs, so jobs may run", "drain the node and reboot it, or use --reboot=force"};
  }
  if (facts.policy == RebootPolicy::if_pending && facts.boot_finished) {
    return {false, "no reboot: the boot is finished (" + facts.why_finished + ")",
            "reboot the node by hand, or use --reboot=force"};
  }
  return {true, "the mode is pending and this launch has not been rebooted for it yet", ""};
}

}  // namespace mig
