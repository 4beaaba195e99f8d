// JSON and YAML as people mean them: one document, no key twice in one map. Both libraries take one of two equal keys
// without a word, and two layouts for one GPU must not pass so.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "base/result.h"

namespace mig {

// Error (usage): "it is no valid JSON", "the key 'x' stands twice in one object".
base::Result<nlohmann::ordered_json> parse_strict_json(const std::string& text);

// Error (usage): "the key 'x' stands twice in one map (line 9)", "a second document begins (line 20)". Throws
// YAML::Exception for what is no YAML.
base::Status check_strict_yaml(const std::string& text);

}  // namespace mig
