// The config file's form: every line that is no TOML is refused, with its number; CLI11 alone would let it pass.
#include "cli/config_text.h"

#include <catch2/catch_test_macros.hpp>

#include "base/text.h"

using Values = std::vector<std::string>;

namespace {

base::Result<std::vector<cli::ConfigEntry>> parse(const std::string& text) {
  return cli::parse_config_text("/etc/gpu-prolog.toml", text);
}

void check_refused(const std::string& text, std::size_t line, const std::string& part) {
  INFO(text);
  const auto entries = parse(text);
  REQUIRE_FALSE(entries);
  CHECK(entries.error().code == base::ExitCode::usage);
  CHECK(entries.error().what.find("config file /etc/gpu-prolog.toml, line " + std::to_string(line) + ": ") == 0);
  INFO(entries.error().what);
  CHECK(entries.error().what.find(part) != std::string::npos);
  CHECK_FALSE(entries.error().cure.empty());
}

}  // namespace

TEST_CASE("a line that is neither section, comment nor key = value is refused") {
  for (const char* line : {"json", "json true", "= true", "just words", "\"json\" = true", "a.b = 1", "a b = 1",
                           "j\xc3\xa4 = 1", "-", "{}", "json : true", "; comment", "// comment"}) {
    check_refused(std::string("# one\n\n") + line + "\n", 3, "is no TOML (key = value)");
  }
}

TEST_CASE("a value that is none is refused, with what may stand there") {
  for (const char* value : {"",
                            "word",
                            "\"open",
                            "'open",
                            "\"closed\" more",
                            "true false",
                            "TRUE",
                            "yes",
                            "30s",
                            "1,2",
                            "1.",
                            ".5",
                            "1.2.3",
                            "1e5",
                            "0x10",
                            "--1",
                            "+",
                            "-",
                            "[",
                            "[1",
                            "[1,",
                            "[1 2]",
                            "[1,,2]",
                            "[,1]",
                            "[[1]]",
                            "[word]",
                            "{a = 1}",
                            "\"\\\"",
                            "2026-05-04",
                            "'a' 'b'",
                            "\"\"\"text\"\"\""}) {
    check_refused(std::string("settle = ") + value + "\n", 1, "has no TOML value");
  }
}

TEST_CASE("a section that is none is refused") {
  for (const char* line : {"[", "[]", "[ ]", "[imex-prolog", "[imex prolog]", "[imex.prolog]", "[[imex-prolog]]",
                           "[imex-prolog] x", "[\"imex-prolog\"]", "[imex-prolog]]"}) {
    check_refused(std::string(line) + "\n", 1, "is no [section]");
  }
}

TEST_CASE("a section or a key given twice is refused: nobody would know which one counts") {
  check_refused("[a]\nx = 1\n[b]\n[a]\n", 4, "section [a] is given twice");
  check_refused("x = 1\nx = 2\n", 2, "key x is given twice");
  check_refused("[a]\nx = 1\ny = 2\nx = 1\n", 4, "key x is given twice");
}

TEST_CASE("a byte order mark is refused by its name, with how to take it out") {
  const auto entries = cli::parse_config_text("/etc/gpu-prolog.toml", "\xEF\xBB\xBFjson = true\n");
  REQUIRE_FALSE(entries);
  CHECK(entries.error().what.find("line 1: the file begins with a byte order mark") != std::string::npos);
  CHECK(entries.error().cure ==
        "save it as UTF-8 without a byte order mark: sed -i '1s/^\\xEF\\xBB\\xBF//' /etc/gpu-prolog.toml");
  check_refused("json = true\n\xEF\xBB\xBFx = 1\n", 2, "is no TOML");
}

TEST_CASE("a zero byte is refused") { check_refused(std::string("x = 1\ny = \"a\0b\"\n", 16), 2, "zero byte"); }

TEST_CASE("what is shown of a refused line can neither forge a line nor send an escape code") {
  const auto entries = parse("\x1b[2J" + std::string(10'000, 'x') + "\n");
  REQUIRE_FALSE(entries);
  CHECK(entries.error().what.find('\x1b') == std::string::npos);
  CHECK(entries.error().what.size() < 300);
}

TEST_CASE("a file of nothing, of blank lines and of comments sets nothing") {
  for (const char* text : {"", "\n\n", "# comment", "  # comment\r\n\t\n"}) {
    const auto entries = parse(text);
    REQUIRE(entries);
    CHECK(entries->empty());
  }
}

TEST_CASE("a section without a key is an entry without a key, so that it can be judged") {
  const auto entries = parse("[imex-prolog]\n# nothing\n");
  REQUIRE(entries);
  REQUIRE(entries->size() == 1);
  CHECK(entries->front().section == "imex-prolog");
  CHECK(entries->front().key.empty());
  CHECK(entries->front().line == 1);
}

TEST_CASE("strings, numbers, booleans and arrays are read, with section and line") {
  const auto entries = parse(
      "json = true  # comment\n"
      "log-level = \"debug\"\r\n"
      "\n"
      "[ imex-prolog ] # comment\n"
      "settle = 1.5\n"
      "\tunit='nvidia imex'\n"
      "max-domain-nodes = +4\n"
      "instance-types = [ \"a\", 'b' , ]\n"
      "[mig-setup]\n"
      "layout = [\"0=3g.20gb:1\", \"1=none\"]\n");
  REQUIRE(entries);
  std::vector<std::string> read;
  for (const auto& entry : *entries) {
    read.push_back(std::to_string(entry.line) + " " + entry.section + "/" + entry.key + ": " +
                   base::join(entry.values, "|"));
  }
  CHECK(read == Values{"1 /json: true", "2 /log-level: debug", "4 imex-prolog/: ", "5 imex-prolog/settle: 1.5",
                       "6 imex-prolog/unit: nvidia imex", "7 imex-prolog/max-domain-nodes: +4",
                       "8 imex-prolog/instance-types: a|b",
                       "9 mig-setup/: ", "10 mig-setup/layout: 0=3g.20gb:1|1=none"});
}

TEST_CASE("what stands in quotes is text, also a comment's sign, brackets, commas and =") {
  const auto entries = parse("a = \"x # y\"\nb = '[z]'\nc = \"1,2=3\"\n");
  REQUIRE(entries);
  REQUIRE(entries->size() == 3);
  CHECK((*entries)[0].values == Values{"x # y"});
  CHECK((*entries)[1].values == Values{"[z]"});
  CHECK((*entries)[2].values == Values{"1,2=3"});
}

TEST_CASE("the same key in two sections is two keys") {
  const auto entries = parse("x = 1\n[a]\nx = 1\n[b]\nx = 1\n");
  REQUIRE(entries);
  CHECK(entries->size() == 5);  // with the two [section] lines
}

TEST_CASE("the comma that TOML allows after the last value of an array is no further, empty value") {
  for (const char* array : {"[\"a\", \"b\",]", "[ \"a\", \"b\" , ] # comment", "[\"a\",\"b\"]"}) {
    INFO(array);
    const auto entries = parse(std::string("x = ") + array + "\n");
    REQUIRE(entries);
    CHECK(entries->front().values == Values{"a", "b"});
  }
  CHECK(parse("x = [\"a\", \"\"]\n")->front().values == Values{"a", ""});
}

TEST_CASE("escapes in double quotes are read, in single quotes they are text; an empty string is a value") {
  CHECK(parse("x = \"a\\tb\\\"c\"\n")->front().values == Values{"a\tb\"c"});
  CHECK(parse("x = 'a\\tb'\n")->front().values == Values{"a\\tb"});
  CHECK(parse("x = \"\"\n")->front().values == Values{""});
}

TEST_CASE("an empty array has no values") { CHECK(parse("x = []\n")->front().values == Values{}); }
