#include "mig/gres.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>

using namespace mig;

namespace {

const std::string a100 = "NVIDIA A100-SXM4-40GB";

bool any_with(const std::vector<std::string>& texts, const std::string& part) {
  return std::any_of(texts.begin(), texts.end(),
                     [&](const std::string& text) { return text.find(part) != std::string::npos; });
}

std::string text_for(const std::vector<DeviceCount>& devices) { return gres_text(gres_for(devices).entries); }

}  // namespace

TEST_CASE("an undeclared variant eats a declared slot, and Slurm ignores the plain device") {
  const Match result =
      match({{"1g.10gb", 7}}, {{"NVIDIA H100 80GB HBM3", "1g.10gb", 6}, {"NVIDIA H100 80GB HBM3", "1g.10gb+me", 1}});
  CHECK(any_with(result.wrong, "gpu:1g.10gb takes 1 of nvidia_h100_80gb_hbm3_1g.10gb+me"));
  const Match one_too_few =
      match({{"1g.10gb", 6}}, {{"NVIDIA H100 80GB HBM3", "1g.10gb", 6}, {"NVIDIA H100 80GB HBM3", "1g.10gb+me", 1}});
  CHECK(any_with(one_too_few.ignored, "nvidia_h100_80gb_hbm3_1g.10gb (1)"));
}

TEST_CASE("types that no device has, too few devices, and types as short as 5gb") {
  CHECK(match({{"3g.20gb", 8}}, {{a100, "7g.40gb", 8}}).got.front().count == 0);
  CHECK(match({{"h200", 2}}, {{"NVIDIA H200", "", 1}}).got.front().count == 1);
  const Match result = match({{"5gb", 4}}, {{"NVIDIA H200", "1g.35gb", 4}});
  CHECK(result.got.front().count == 4);
  CHECK(result.ignored.empty());
}

TEST_CASE("declared variants each get their own device") {
  const Match result = match({{"1g.10gb", 6}, {"1g.10gb+me", 1}},
                             {{"NVIDIA H100 80GB HBM3", "1g.10gb", 6}, {"NVIDIA H100 80GB HBM3", "1g.10gb+me", 1}});
  CHECK(result.wrong.empty());
  CHECK(result.ignored.empty());
  CHECK(result.got[0].count == 6);
  CHECK(result.got[1].count == 1);
}

TEST_CASE("detected types as slurmd names them") {
  CHECK(detected_type({a100, "3g.20gb", 1}) == "nvidia_a100_3g.20gb");
  CHECK(detected_type({a100, "", 1}) == "nvidia_a100-sxm4-40gb");
  CHECK(detected_type({"NVIDIA RTX PRO 6000 Blackwell Server Edition", "1g.24gb+gfx", 1}) ==
        "nvidia_rtx_pro_6000_blackwell_server_edition_1g.24gb+gfx");
}

TEST_CASE("the text for slurm.conf: larger profiles first, counts summed") {
  CHECK(text_for({{a100, "1g.5gb", 16}, {a100, "3g.20gb", 8}, {a100, "2g.10gb", 8}}) ==
        "gpu:3g.20gb:8,gpu:2g.10gb:8,gpu:1g.5gb:16");
  CHECK(text_for({{"NVIDIA H200", "", 8}}) == "gpu:nvidia_h200:8");
  CHECK(text_for({}).empty());
}

TEST_CASE("a type that is a part of another is warned about, with the longer names") {
  const Gres gres = gres_for({{"NVIDIA H200", "1g.18gb", 3}, {"NVIDIA H200", "1g.18gb+me", 1}});
  CHECK(gres_text(gres.entries) == "gpu:1g.18gb:3,gpu:1g.18gb+me:1");
  CHECK(any_with(gres.warnings, "nvidia_h200_1g.18gb+me"));
  CHECK(gres_for({{"NVIDIA H200", "1g.18gb", 3}, {"NVIDIA H200", "1g.35gb", 1}}).warnings.empty());
}

TEST_CASE("whole GPUs beside MIG devices, and one type on two boards, need the longer names") {
  const Gres whole = gres_for({{"NVIDIA H200", "", 4}, {"NVIDIA H200", "1g.18gb", 28}});
  CHECK(whole.long_types);
  CHECK(match(whole.entries, {{"NVIDIA H200", "", 4}, {"NVIDIA H200", "1g.18gb", 28}}).wrong.empty());
  const Gres boards = gres_for({{a100, "1g.10gb", 4}, {"NVIDIA H100 80GB HBM3", "1g.10gb", 7}});
  CHECK(boards.long_types);
  CHECK(gres_text(boards.entries).find("gpu:nvidia_a100_1g.10gb:4") != std::string::npos);
}

TEST_CASE("a saved board without a product name still gets short types") {
  CHECK(text_for({{"", "1g.18gb", 7}}) == "gpu:1g.18gb:7");
}

TEST_CASE("Gres texts that cannot be read are refused") {
  for (const char* text : {"gpu:3g.20gb:x", "gpu:3g.20gb:-1", "gpu:a:b:c:d:1", "gpu:3g.20gb:99999999999"}) {
    CAPTURE(text);
    const auto gres = parse_gres(text);
    REQUIRE_FALSE(gres);
    CHECK(gres.error().code == base::ExitCode::usage);
  }
}

TEST_CASE("Gres texts as Slurm and the AWS command line write them") {
  const auto gres = parse_gres("Gres=gpu:3g.20gb:8(S:0),gpu:1g.5gb:28(S:0,1),craynetwork:4,gpu:2");
  REQUIRE(gres);
  CHECK(gres_text(*gres) == "gpu:3g.20gb:8,gpu:1g.5gb:28,gpu:2");
  CHECK(gres_text(*parse_gres("gpu:3g.20gb:8\\,gpu:1g.5gb:16")) == "gpu:3g.20gb:8,gpu:1g.5gb:16");
  CHECK(parse_gres("(null)")->empty());
  CHECK(gres_text(*parse_gres("gpu:tesla")) == "gpu:tesla:1");
}

TEST_CASE("a Gres that a person gives must be one from end to end") {
  for (const char* text : {"xx;;", "xx", "nvme:2", "gpu:3g.20gb:8,", ",gpu:1", "gpu:a b:1", "gpu::1",
                           "gpu:3g.20gb:8;gpu:1", "gpu:a:b:c:d", "Gres=", "gpu:$(x):1", "gpu:'x':1"}) {
    CAPTURE(text);
    const auto entries = parse_given_gres(text);
    if (std::string_view(text) == "Gres=") {
      CHECK(entries);  // Slurm's empty list
      continue;
    }
    REQUIRE_FALSE(entries);
    CHECK(entries.error().code == base::ExitCode::usage);
    CHECK_FALSE(entries.error().cure.empty());
  }
  for (const char* text : {"", "(null)", "gpu:8", "gpu", "gpu:3g.20gb:8(S:0-1),gpu:1g.5gb+me:16,shard:4",
                           "Gres=gpu:nvidia_h200:8", "gpu:3g.20gb:8\\,gpu:1g.5gb:16"}) {
    CAPTURE(text);
    CHECK(parse_given_gres(text));
  }
}

TEST_CASE("a type out of a hostile file cannot break out of the quotes of the AWS command line") {
  for (const std::string type :
       {"x'; touch /tmp/oops; echo '", "a\"b", "a]}", "a b", "$(reboot)", "`x`", "a\\", "\xff"}) {
    CAPTURE(type);
    const std::string call = aws_cli({{type, 1}});
    const std::size_t begin = call.find('\'');
    REQUIRE(begin != std::string::npos);
    // As a shell reads it: quoted text, and \' between two quotes.
    std::string word;
    bool open = false;
    for (std::size_t i = begin; i < call.size(); ++i) {
      if (call[i] == '\'') {
        open = !open;
      } else if (open) {
        word += call[i];
      } else {
        REQUIRE(call.substr(i, 2) == "\\'");
        word += call[++i];
      }
    }
    CHECK_FALSE(open);
    const auto json = nlohmann::json::parse(word);
    if (type != "\xff") CHECK(json["slurmCustomSettings"][0]["parameterValue"] == "gpu:" + type + ":1");
    CHECK_FALSE(aws_json({{type, 1}}).empty());
  }
}

TEST_CASE("the AWS forms: escaped commas on the command line, none in JSON, AutoDetect alone") {
  const std::vector<GresEntry> entries{{"3g.20gb", 8}, {"2g.10gb", 8}, {"1g.5gb", 16}};
  CHECK(aws_cli(entries) ==
        "aws pcs update-compute-node-group \\\n--cluster-identifier my-cluster \\\n--compute-node-group-identifier "
        "my-cng-1 \\\n--slurm-configuration \\\n"
        "'gresCustomSettings=[{AutoDetect=nvml}],slurmCustomSettings=[{parameterName=Gres,parameterValue=gpu:3g.20gb:"
        "8\\,gpu:2g.10gb:8\\,gpu:1g.5gb:16}]'");
  const auto json = nlohmann::json::parse(aws_json(entries));
  CHECK(json["gresCustomSettings"] == nlohmann::json::parse(R"([{"AutoDetect": "nvml"}])"));
  CHECK(json["slurmCustomSettings"] ==
        nlohmann::json::parse(
            R"([{"parameterName": "Gres", "parameterValue": "gpu:3g.20gb:8,gpu:2g.10gb:8,gpu:1g.5gb:16"}])"));
}

TEST_CASE("a change of layout names what goes, comes and shrinks, and the power-up line") {
  const GresChange change = change_of({{"3g.20gb", 8}, {"1g.5gb", 16}}, {{"1g.5gb", 8}, {"7g.40gb", 1}});
  CHECK(change.gone == std::vector<std::string>{"3g.20gb"});
  CHECK(change.added == std::vector<std::string>{"7g.40gb"});
  CHECK(change.fewer == std::vector<std::string>{"1g.5gb 16 -> 8"});
  CHECK(any_with(tell(change, {"n1", "n2"}), "scontrol update NodeName=n1,n2 State=POWER_UP"));
  CHECK(any_with(tell(change, {}), "State=POWER_UP"));
  CHECK(change_of({{"3G.20gb", 8}}, {{"3g.20gb", 8}}).same());
}

TEST_CASE("nodes that still advertise the old layout; a comment cannot name one") {
  const std::string nodes =
      "NodeName=n1 Arch=x86_64 Gres=gpu:3g.20gb:8(S:0) NodeAddr=1.2.3.4 State=IDLE\n"
      "NodeName=n2 Arch=x86_64 Gres=gpu:7g.40gb:8 State=IDLE\n"
      "NodeName=n3 Arch=x86_64 Gres=(null) OS=Linux Comment=Gres=gpu:3g.20gb:8\n"
      "   NodeName=n4 Gres=gpu:3g.20gb:8\n";
  CHECK(stale_nodes(nodes, {{"3g.20gb", 8}}, {{"7g.40gb", 8}}) == std::vector<std::string>{"n1"});
  CHECK(stale_nodes(nodes, {{"3g.20gb", 8}}, {{"3g.20gb", 8}}).empty());
}
