// docs/faults-mig.md names a test for every fault: the names are held to tests that exist.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "base/text.h"
#include "places.h"

namespace {

std::string read(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string read_folder(const std::filesystem::path& folder, const std::string& ending) {
  std::string all;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ending) all += read(entry.path());
  }
  return all;
}

// A long title stands on several lines in the source, as adjacent literals.
std::string joined(const std::string& source) {
  std::string text;
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '"' || source[i] == '(') {
      std::size_t next = source.find_first_not_of(" \n", i + 1);
      const bool over_lines = next != std::string::npos && source.find('\n', i) < next && source[next] == '"';
      if (over_lines && source[i] == '"') {
        i = next;
        continue;
      }
      if (over_lines) {
        text += source[i];
        i = next - 1;
        continue;
      }
    }
    text += source[i];
  }
  return text;
}

}  // namespace

TEST_CASE("every fault from 1 to 59 has a row with a verdict and a test that exists") {
  const std::filesystem::path tests = tests::data_dir().parent_path();
  const std::string python = read_folder(tests / "mig", ".py");
  const std::string unit =
      joined(read_folder(tests / "unit" / "mig", ".cpp") + read_folder(tests / "unit" / "commands", ".cpp"));
  const std::string page = read(tests.parent_path() / "docs" / "faults-mig.md");
  std::vector<std::string> numbers;
  for (std::string_view line : base::lines(page)) {
    const auto cells = base::split(line, '|');
    if (cells.size() != 7 || !base::parse_number(base::trim(cells[1]))) continue;
    CAPTURE(std::string(line));
    numbers.emplace_back(base::trim(cells[1]));
    const std::string verdict(base::trim(cells[3]));
    CHECK((verdict == "prevented" || verdict == "cured" || verdict == "detected" || verdict == "not ours"));
    std::string_view test = base::trim(cells[5]);
    REQUIRE(test.size() > 2);
    const bool is_python = test.front() == '`';
    test.remove_prefix(1);
    test.remove_suffix(1);
    if (is_python) {
      CHECK(python.find("def " + std::string(test) + "(") != std::string::npos);
    } else {
      CHECK(unit.find("TEST_CASE(\"" + std::string(test) + "\")") != std::string::npos);
    }
  }
  REQUIRE(numbers.size() == 59);
  for (std::size_t i = 0; i < numbers.size(); ++i) CHECK(numbers[i] == std::to_string(i + 1));
}
