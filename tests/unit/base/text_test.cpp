#include "base/text.h"

#include <catch2/catch_test_macros.hpp>
#include <string>

using namespace base;

TEST_CASE("how deep the brackets of a JSON text stand in each other") {
  CHECK_FALSE(nests_deeper_than("", 0));
  CHECK(nests_deeper_than("[", 0));
  CHECK_FALSE(nests_deeper_than("{\"a\": [1], \"b\": [2]}", 2));
  CHECK(nests_deeper_than("{\"a\": [[1]]}", 2));
  CHECK_FALSE(nests_deeper_than("[\"[[[\", \"\\\"[[\"]", 1));
  CHECK_FALSE(nests_deeper_than("]]]][", 1));
  CHECK(nests_deeper_than(std::string(900'000, '['), 8));
}

TEST_CASE("trim takes white space from both ends and nothing else") {
  CHECK(trim("").empty());
  CHECK(trim(" \t\r\n\v\f ").empty());
  CHECK(trim("  a b \n") == "a b");
  CHECK(trim(std::string_view("\0a", 2)) == std::string_view("\0a", 2));
}

TEST_CASE("lines end at line feeds, with or without a carriage return") {
  CHECK(lines("").empty());
  CHECK(lines("\n") == std::vector<std::string_view>{""});
  CHECK(lines("a\r\nb\n\nc") == std::vector<std::string_view>{"a", "b", "", "c"});
  CHECK(lines("a\rb\n") == std::vector<std::string_view>{"a\rb"});
}

TEST_CASE("split keeps empty parts") {
  CHECK(split("", ',') == std::vector<std::string_view>{""});
  CHECK(split(",", ',') == std::vector<std::string_view>{"", ""});
  CHECK(split("a,,b", ',') == std::vector<std::string_view>{"a", "", "b"});
}

TEST_CASE("words are never empty") {
  CHECK(words(" \t ").empty());
  CHECK(words("  92 nvidia-caps\t x ") == std::vector<std::string_view>{"92", "nvidia-caps", "x"});
}

TEST_CASE("join puts the separator between, not around") {
  CHECK(join({}, ", ").empty());
  CHECK(join({"a"}, ", ") == "a");
  CHECK(join({"a", "", "b"}, ", ") == "a, , b");
}

TEST_CASE("comparing without case knows ASCII letters only") {
  CHECK(lower("SwitchType_1") == "switchtype_1");
  CHECK(equals_ignoring_case("NoHold", "nohold"));
  CHECK_FALSE(equals_ignoring_case("NoHold", "NoHol"));
  CHECK_FALSE(equals_ignoring_case("\xC4", "\xE4"));
  CHECK(contains_ignoring_case("NVIDIA H200 NVL", "h200"));
  CHECK_FALSE(contains_ignoring_case("H20", "h200"));
  CHECK(contains_ignoring_case("anything", ""));
}

TEST_CASE("only a whole decimal number without sign is a number") {
  for (const char* bad : {"", " ", "-1", "+1", "1 ", " 1", "0x10", "1e3", "1.0", "18446744073709551616", "1a"}) {
    CAPTURE(bad);
    CHECK_FALSE(parse_number(bad));
  }
  CHECK(parse_number("0") == 0U);
  CHECK(parse_number("007") == 7U);
  CHECK(parse_number("18446744073709551615") == 18446744073709551615ULL);
}

TEST_CASE("outside text cannot forge a log line or send an escape code") {
  CHECK(printable("a\nb\r\t") == "a\\x0ab\\x0d\\x09");
  CHECK(printable("\x1b[31mred\x7f") == "\\x1b[31mred\\x7f");
  CHECK(printable(std::string_view("\0", 1)) == "\\x00");
  CHECK(printable("\xC2\x9B"
                  "31m") == "\\xc2\\x9b31m");  // CSI as one character
  CHECK(printable("gr\xC3\xBC\xC3\x9F") == "gr\xC3\xBC\xC3\x9F");
  CHECK(printable("\xE2\x82\xAC \xF0\x9F\x98\x80") == "\xE2\x82\xAC \xF0\x9F\x98\x80");
  CHECK(printable("C:\\x") == "C:\\x");
}

TEST_CASE("bytes that are no UTF-8 are shown as bytes") {
  CHECK(printable("\xFF") == "\\xff");
  CHECK(printable("\xC3") == "\\xc3");                    // cut short
  CHECK(printable("\xE2\x82") == "\\xe2\\x82");           // cut short
  CHECK(printable("\xF0\x9F\x98") == "\\xf0\\x9f\\x98");  // cut short
  CHECK(printable("\xC0\xAF") == "\\xc0\\xaf");           // overlong '/'
  CHECK(printable("\xE0\x80\xAF") == "\\xe0\\x80\\xaf");  // overlong
  CHECK(printable("\xF0\x80\x80\xAF") == "\\xf0\\x80\\x80\\xaf");
  CHECK(printable("\xED\xA0\x80") == "\\xed\\xa0\\x80");           // surrogate
  CHECK(printable("\xF4\x90\x80\x80") == "\\xf4\\x90\\x80\\x80");  // beyond Unicode
}

TEST_CASE("long text is cut between characters") {
  CHECK(printable("abcdef", 6) == "abcdef");
  CHECK(printable("abcdef", 5) == "abcde...");
  CHECK(printable("ab\n", 5) == "ab...");  // an escape is not cut in two
  CHECK(printable("a\xC3\xBC"
                  "b",
                  2) == "a...");  // nor a character
  CHECK(printable(std::string(1000, 'x')).size() == 403);
}

TEST_CASE("versions compare as numbers") {
  CHECK(compare_versions("25.05", "25.11") < 0);
  CHECK(compare_versions("25.11", "25.5") > 0);
  CHECK(compare_versions("9.1", "10.0") < 0);
  CHECK(compare_versions("25.05", "25.5") == 0);
  CHECK(compare_versions("25.05", "25.05.3") < 0);
  CHECK(compare_versions("580.95.05", "580.95.05") == 0);
  CHECK(compare_versions("25.11-rc1", "25.11-rc2") < 0);
  CHECK(compare_versions("99999999999999999999999", "100000000000000000000000") < 0);
  CHECK(compare_versions("", "1") < 0);
  CHECK(compare_versions("", "") == 0);
}

TEST_CASE("one is no plural") {
  CHECK(base::counted(0, "node") == "0 nodes");
  CHECK(base::counted(1, "node") == "1 node");
  CHECK(base::counted(18, "peer") == "18 peers");
}
