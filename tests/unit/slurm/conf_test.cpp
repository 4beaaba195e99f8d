#include "slurm/conf.h"

#include <catch2/catch_test_macros.hpp>
#include <string>

#include "captured.h"
#include "fakes/fake_files.h"

using namespace slurm;
using namespace std::chrono_literals;

namespace {

Conf parsed(const std::string& text) {
  Conf conf;
  std::vector<std::string> includes;
  parse_conf(text, conf, includes);
  return conf;
}

std::vector<std::string> includes_of(const std::string& text) {
  Conf conf;
  std::vector<std::string> includes;
  parse_conf(text, conf, includes);
  return includes;
}

const std::string path = "/run/slurm/conf/slurm.conf";

Conf read_text(const std::string& text) {
  fakes::FakeFiles files;
  files.file(path, text);
  return *read_conf(files, path);
}

}  // namespace

TEST_CASE("what is no Key=Value says nothing") {
  for (const char* bad : {"", "\n\n", "#SwitchType=switch/nvidia_imex", "  # SwitchType=x", "SwitchType", "SwitchType=",
                          "SwitchType= # x", "=x", "Switch Type=x", "\\#SwitchType=x", "Include", "Include x y"}) {
    CAPTURE(bad);
    CHECK_FALSE(parsed(bad).get("SwitchType"));
  }
}

TEST_CASE("keys and values are read as Slurm reads them") {
  struct Row {
    const char* text;
    const char* value;
  };
  const Row rows[] = {
      {"SwitchType=switch/nvidia_imex", "switch/nvidia_imex"},
      {"switchtype=a", "a"},
      {"SWITCHTYPE=a\r\n", "a"},
      {"  SwitchType  =  a  ", "a"},
      {"SwitchType=a#b", "a"},
      {"SwitchType=a # b", "a"},
      {"SwitchType=a\\#b", "a#b"},
      {"SwitchType=a\\\\#b", "a\\"},
      {"SwitchType=a\nSwitchType=b", "b"},
      {"SwitchType=\\\na", "a"},
      {"SwitchType=a\\\nb", "ab"},
      {"Switch\\   \nType=a", "a"},
      {"SwitchType=\"a b\"", "a b"},
      {"SwitchType=\"a b", "\"a"},
      {"ClusterName=x SwitchType=a", "a"},
      {"SwitchType+=a", "a"},
      {"# a comment does not go on \\\nSwitchType=a", "a"},
      {"SwitchType=a\\", "a"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.text);
    CHECK(parsed(row.text).get("SwitchType") == row.value);
  }
}

TEST_CASE("the keys of a record are not the cluster's") {
  const Conf conf = parsed(
      "SlurmdPort=6818\n"
      "NodeName=ultra-[1-18] SlurmdPort=7000 SwitchType=x PrologFlags=NoHold\n"
      "DownNodes=ultra-3 SwitchType=y\n"
      "NodeSet=all SwitchType=z\n"
      "PartitionName=ultra SwitchType=u\n");
  CHECK(conf.get("slurmdport") == "6818");
  CHECK_FALSE(conf.get("SwitchType"));
  CHECK_FALSE(has_prolog_flag(conf, "NoHold"));
}

TEST_CASE("a key that may repeat keeps all its values") {
  const Conf conf = parsed("Prolog=/a/*\nEpilog=/e\nprolog=/b\n");
  CHECK(conf.all("Prolog") == std::vector<std::string>{"/a/*", "/b"});
  CHECK(conf.all("TaskProlog").empty());
}

TEST_CASE("a partition inherits the DEFAULT lines before it") {
  const Conf conf = parsed(
      "PartitionName=early Nodes=a\n"
      "PartitionName=DEFAULT Topology=ultra OverSubscribe=NO\n"
      "PartitionName=p1 Nodes=b\n"
      "PartitionName=p2 Topology=tree1\n"
      "PartitionName=default Topology=flat1\n"
      "PartitionName=p3 Nodes=\"c d\"\n"
      "PartitionName=p1 State=UP\n");
  CHECK_FALSE(conf.partition("early").contains("topology"));
  CHECK(conf.partition("p1").at("topology") == "ultra");
  CHECK(conf.partition("p1").at("state") == "UP");
  CHECK(conf.partition("p2").at("topology") == "tree1");
  CHECK(conf.partition("p2").at("oversubscribe") == "NO");
  CHECK(conf.partition("p3").at("topology") == "flat1");
  CHECK(conf.partition("p3").at("nodes") == "c d");
  CHECK(conf.partition("nosuch").empty());
  CHECK(conf.partition("").empty());
  CHECK(conf.partition("P1").empty());  // names are case-sensitive
}

TEST_CASE("Include lines are found in any case, and nothing like them") {
  CHECK(includes_of("Include a.conf\n  INCLUDE\t/b/c.conf # x\n") == std::vector<std::string>{"a.conf", "/b/c.conf"});
  CHECK(includes_of("IncludeFile x\nInclude=x\nIncluded x\n#Include x\n").empty());
}

TEST_CASE("an included file counts where it stands") {
  fakes::FakeFiles files;
  files.file(path, "ClusterName=Rack\nSwitchType=before\nMessageTimeout=20\nInclude more-%c.conf\nMessageTimeout=30\n");
  files.file("/run/slurm/conf/more-rack.conf",
             "SwitchType=switch/nvidia_imex\nMessageTimeout=25\nInclude /abs/x.conf\n");
  files.file("/abs/x.conf", "Include deeper.conf\nBatchStartTimeout=180\n");
  files.file("/run/slurm/conf/deeper.conf", "PrologFlags=Alloc,noHold\n");  // relative to slurm.conf's folder
  const auto conf = read_conf(files, path);
  REQUIRE(conf);
  CHECK(conf->get("SwitchType") == "switch/nvidia_imex");
  CHECK(message_timeout(*conf) == 30s);
  CHECK(batch_start_timeout(*conf) == 180s);
  CHECK(has_prolog_flag(*conf, "NoHold"));
  CHECK(conf->unreadable.empty());
}

TEST_CASE("an Include that cannot be read is told, not fatal") {
  fakes::FakeFiles files;
  files.file(path, "Include nosuch.conf\nSwitchType=a\n");
  const auto conf = read_conf(files, path);
  REQUIRE(conf);
  CHECK(conf->get("SwitchType") == "a");
  REQUIRE(conf->unreadable.size() == 1);
  CHECK(conf->unreadable[0].find("/run/slurm/conf/nosuch.conf") == 0);
}

TEST_CASE("files that include themselves and each other end") {
  fakes::FakeFiles files;
  files.file(path, "Include slurm.conf\nInclude a.conf\nSwitchType=a\n");
  files.file("/run/slurm/conf/a.conf", "Include a.conf\nInclude slurm.conf\nInclude a.conf\nInclude slurm.conf\n");
  const auto conf = read_conf(files, path);
  REQUIRE(conf);
  CHECK(conf->get("SwitchType") == "a");
  CHECK_FALSE(conf->unreadable.empty());
  CHECK(conf->unreadable.size() < 1000);
}

TEST_CASE("a file too large is refused, with what it includes") {
  fakes::FakeFiles files;
  files.file(path, std::string((4U << 20U) + 1, '\n'));
  const auto conf = read_conf(files, path);
  REQUIRE_FALSE(conf);
  CHECK(conf.error().code == base::ExitCode::surroundings);
  CHECK(conf.error().os_error == EFBIG);
  CHECK(conf.error().what == "cannot read " + path + ": it has, with the files that it includes, more than 4 MiB");

  files.file(path, "Include big.conf\nSwitchType=a\n");
  files.file("/run/slurm/conf/big.conf", std::string(4U << 20U, '\n'));
  const auto including = read_conf(files, path);
  REQUIRE(including);
  CHECK(including->get("SwitchType") == "a");
  REQUIRE(including->unreadable.size() == 1);
  CHECK(including->unreadable[0].find("more than 4 MiB") != std::string::npos);
}

TEST_CASE("settings beyond all measure are refused, wherever they stand") {
  std::string flood;
  for (int i = 0; i < 32'768; ++i) flood += "a=b\n";
  fakes::FakeFiles files;
  files.file(path, flood);
  CHECK(read_conf(files, path));
  for (const char* more : {"a=b\n", "PartitionName=p\n", "Include one.conf\n"}) {
    CAPTURE(more);
    files.file("/run/slurm/conf/one.conf", "a=b\n");
    files.file(path, flood + more + "\nc=d\n");
    const auto conf = read_conf(files, path);
    REQUIRE_FALSE(conf);
    CHECK(conf.error().os_error == EFBIG);
    CHECK(conf.error().what.find("more than 32768 settings") != std::string::npos);
  }
  // A cluster's nodes are no settings of ours.
  std::string nodes;
  for (int i = 0; i < 10'000; ++i) nodes += "NodeName=node-" + std::to_string(i) + " CPUs=96 Gres=gpu:4 State=CLOUD\n";
  files.file(path, nodes + "SwitchType=a\n");
  CHECK(read_conf(files, path)->get("SwitchType") == "a");
}

TEST_CASE("Include lines without end are told once") {
  std::string flood;
  for (int i = 0; i < 20'000; ++i) flood += "Include nosuch-%c.conf\n";
  fakes::FakeFiles files;
  files.file(path, flood);
  const auto conf = read_conf(files, path);
  REQUIRE(conf);
  CHECK(conf->unreadable.size() == 64);
  CHECK(conf->unreadable.back().find("too many Include files") != std::string::npos);
}

TEST_CASE("one value of every partition, DEFAULT folded in") {
  const Conf conf = parsed(
      "PartitionName=early Nodes=a\n"
      "PartitionName=DEFAULT OverSubscribe=NO\n"
      "PartitionName=p1 Nodes=b\n"
      "PartitionName=p2 OverSubscribe=FORCE\n"
      "PartitionName=default oversubscribe=YES\n"
      "PartitionName=p3\n"
      "PartitionName=p1 OverSubscribe=EXCLUSIVE\n");
  using Rows = std::vector<std::pair<std::string, std::string>>;
  CHECK(conf.of_partitions("OverSubscribe") ==
        Rows{{"early", ""}, {"p1", "EXCLUSIVE"}, {"p2", "FORCE"}, {"p3", "YES"}});
}

TEST_CASE("the node's own copy: SLURM_CONF, then the configless one, then /etc") {
  fakes::FakeFiles files;
  const auto none = own_conf(files, "/opt/slurm/etc/slurm.conf");
  REQUIRE_FALSE(none);
  CHECK(none.error().code == base::ExitCode::surroundings);
  for (const char* tried : {"/opt/slurm/etc/slurm.conf", "/run/slurm/conf/slurm.conf", "/etc/slurm/slurm.conf"}) {
    CHECK(none.error().what.find(tried) != std::string::npos);
  }
  CHECK(none.error().os_error == ENOENT);
  files.file("/etc/slurm/slurm.conf", "ClusterName=etc\n");
  CHECK(own_conf(files, "")->path == "/etc/slurm/slurm.conf");
  files.file("/run/slurm/conf/slurm.conf", "ClusterName=run\n");
  CHECK(own_conf(files, "")->path == "/run/slurm/conf/slurm.conf");
  files.file("/opt/slurm/etc/slurm.conf", "ClusterName=opt\n");
  CHECK(own_conf(files, "/opt/slurm/etc/slurm.conf")->get("clustername") == "opt");
  CHECK(own_conf(files, "relative/slurm.conf")->get("clustername") == "run");
}

TEST_CASE("a copy that is there but cannot be read is told") {
  fakes::FakeFiles files;
  files.file("/run/slurm/conf/slurm.conf", std::string((4U << 20U) + 1, '\n'));
  const auto none = own_conf(files, "");
  REQUIRE_FALSE(none);
  CHECK(none.error().os_error == EFBIG);
  CHECK(none.error().cure == "see what has filled it, and take out what is no setting of Slurm's");
  files.file("/etc/slurm/slurm.conf", "ClusterName=etc\n");
  const auto next = own_conf(files, "");
  REQUIRE(next);
  REQUIRE(next->unreadable.size() == 1);
  CHECK(next->unreadable[0].find("/run/slurm/conf/slurm.conf") != std::string::npos);
}

TEST_CASE("limits of prolog and epilog") {
  struct Row {
    const char* text;
    std::optional<std::chrono::milliseconds> prolog, epilog;
  };
  const Row rows[] = {
      {"", std::nullopt, std::nullopt},
      {"PrologEpilogTimeout=65534", std::nullopt, std::nullopt},
      {"PrologEpilogTimeout=65535", std::nullopt, std::nullopt},
      {"PrologEpilogTimeout=INFINITE", std::nullopt, std::nullopt},
      {"PrologEpilogTimeout=0", std::nullopt, std::nullopt},
      {"PrologEpilogTimeout=-5", std::nullopt, std::nullopt},
      {"PrologEpilogTimeout=1m", std::nullopt, std::nullopt},
      {"PrologEpilogTimeout=60", 60s, 60s},
      {"PrologEpilogTimeout=60\nPrologTimeout=300", 300s, 60s},
      {"PrologEpilogTimeout=60\nEpilogTimeout=300", 60s, 300s},
      {"PrologEpilogTimeout=60\nPrologTimeout=65534", std::nullopt, 60s},
      {"prologtimeout=90", 90s, std::nullopt},
  };
  for (const Row& row : rows) {
    CAPTURE(row.text);
    CHECK(prolog_limit(parsed(row.text)) == row.prolog);
    CHECK(epilog_limit(parsed(row.text)) == row.epilog);
  }
}

TEST_CASE("timeouts have Slurm's defaults") {
  CHECK(message_timeout(parsed("")) == 10s);
  CHECK(batch_start_timeout(parsed("")) == 10s);
  CHECK(message_timeout(parsed("MessageTimeout=x")) == 10s);
  CHECK(message_timeout(parsed("MessageTimeout=100")) == 100s);
}

TEST_CASE("prolog flags are words") {
  CHECK(has_prolog_flag(parsed("PrologFlags=Alloc,NoHold"), "nohold"));
  CHECK_FALSE(has_prolog_flag(parsed("PrologFlags=Alloc,NoHolds"), "nohold"));
  CHECK_FALSE(has_prolog_flag(parsed(""), "nohold"));
}

TEST_CASE("the spool folder of step sockets") {
  CHECK(spool_dir(parsed(""), "n1") == "/var/spool/slurmd");
  CHECK(spool_dir(parsed("SlurmdSpoolDir=/var/spool/%n/"), "n1") == "/var/spool/n1");
  CHECK(spool_dir(parsed("SlurmdSpoolDir=spool"), "n1") == "/var/spool/slurmd");
  CHECK(spool_dir(parsed("SlurmdSpoolDir=/a/%h.%n"), "n1") == "/a/n1.n1");
  fakes::FakeFiles files;
  files.file(path, "SlurmdSpoolDir=/a/%h\n").file("/proc/sys/kernel/hostname", "ip-10-0-0-1.ec2.internal\n");
  CHECK(spool_dir(*read_conf(files, path), "n1") == "/a/ip-10-0-0-1");
}

TEST_CASE("whether slurmd makes IMEX channels itself") {
  for (const char* no :
       {"", "SwitchType=switch/none", "SwitchType=switch/nvidia_imex2", "#SwitchType=switch/nvidia_imex",
        "NodeName=a SwitchType=switch/nvidia_imex", "SwitchType=switch/nvidia_imex\nSwitchType=switch/none"}) {
    CAPTURE(no);
    CHECK_FALSE(switch_makes_channels(parsed(no)));
  }
  CHECK(switch_makes_channels(parsed("SwitchType=switch/nvidia_imex")));
  CHECK(switch_makes_channels(parsed("SWITCHTYPE = Switch/NVIDIA_IMEX")));
}

TEST_CASE("a conf cut short at any byte is read without a crash") {
  const std::string text =
      "ClusterName=rig # x\nInclude \\\n  a.conf\nPartitionName=DEFAULT Topology=\"u v\"\nPartitionName=p \\\n "
      "Nodes=a\n"
      "SlurmdSpoolDir=/var/spool/%n\\#\n";
  for (std::size_t length = 0; length <= text.size(); ++length) {
    const Conf conf = read_text(text.substr(0, length));
    CHECK(spool_dir(conf, "n").starts_with('/'));
    (void)conf.partition("p");
  }
}
