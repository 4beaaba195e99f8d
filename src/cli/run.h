// From argv to exit code: the words, the config file, the outside, the command, and what people are told.
#pragma once

#include <string>
#include <vector>

namespace cli {

int run(const std::string& argv0, const std::vector<std::string>& arguments);

}  // namespace cli
