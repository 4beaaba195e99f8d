// Where a test finds what it needs from outside its own program.
#pragma once

#include <filesystem>

namespace tests {

std::filesystem::path data_dir();   // tests/data of the sources
std::filesystem::path tools_dir();  // the programs made of tests/tools

}  // namespace tests
