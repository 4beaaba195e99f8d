// nvidia-imex's config.cfg as shipped, as edited by hand, and as damaged.
#include "imex/config.h"

#include <catch2/catch_test_macros.hpp>
#include <cerrno>

#include "fakes/fake_files.h"

using imex::parse_daemon_config;

TEST_CASE("a port that is none is refused, with key and value") {
  for (const char* value : {"0", "65536", "-1", "http", "", "50000 # ours", "0x50", "5e4", "99999999999999999999"}) {
    for (const char* key : {"SERVER_PORT", "IMEX_CMD_PORT"}) {
      INFO(key << "=" << value);
      const auto config = parse_daemon_config(std::string(key) + "=" + value + "\n");
      REQUIRE_FALSE(config);
      CHECK(config.error().code == base::ExitCode::change);
      CHECK(config.error().what.find(std::string(key) + "=") == 0);
      CHECK(config.error().cure == "correct /etc/nvidia-imex/config.cfg");
    }
  }
}

TEST_CASE("a node list path that cannot be one is refused") {
  for (const std::string& value : {std::string("nodes.cfg"), "/" + std::string(256, 'x'), std::string("/etc/../tmp/x"),
                                   std::string("./nodes.cfg")}) {
    INFO(value);
    const auto config = parse_daemon_config("IMEX_NODE_CONFIG_FILE=" + value);
    REQUIRE_FALSE(config);
    CHECK(config.error().code == base::ExitCode::change);
  }
}

TEST_CASE("a refused value cannot forge a log line") {
  const auto config = parse_daemon_config("SERVER_PORT=\x1b[31mred\n");
  REQUIRE_FALSE(config);
  CHECK(config.error().what.find('\x1b') == std::string::npos);
}

TEST_CASE("an unreadable config file fails; a missing one gives NVIDIA's defaults") {
  fakes::FakeFiles files;
  const auto missing = imex::read_daemon_config(files, "/etc/nvidia-imex/config.cfg");
  REQUIRE(missing);
  CHECK(missing->nodes_config == "/etc/nvidia-imex/nodes_config.cfg");
  CHECK(missing->server_port == 50000);
  CHECK(missing->command_port == 50005);
  CHECK(missing->command_enabled);
  files.fail_read("/etc/nvidia-imex/config.cfg", EACCES);
  const auto unreadable = imex::read_daemon_config(files, "/etc/nvidia-imex/config.cfg");
  REQUIRE_FALSE(unreadable);
  CHECK(unreadable.error().code == base::ExitCode::change);
}

TEST_CASE("comments, other keys, lines without = and keys that only begin alike are passed over") {
  const auto config = parse_daemon_config(
      "# SERVER_PORT=1\n"
      "  # IMEX_CMD_ENABLED=0\n"
      "SERVER_PORT\n"
      "SERVER_PORTS=2\n"
      "MY_SERVER_PORT=3\n"
      "server_port=4\n"
      "LOG_LEVEL=4\n"
      "=5\n"
      "\n");
  REQUIRE(config);
  CHECK(config->server_port == 50000);
  CHECK(config->command_enabled);
}

TEST_CASE("every key that counts is read, whatever stands around it") {
  const auto config = parse_daemon_config(
      "IMEX_NODE_CONFIG_FILE = \"/etc/imex/list of ours.cfg\"\r\n"
      "SERVER_PORT='1101'\n"
      "\tIMEX_CMD_PORT =1102\n"
      "IMEX_CMD_ENABLED=0\n"
      "IMEX_WAIT_FOR_QUORUM=RECOVERY");
  REQUIRE(config);
  CHECK(config->nodes_config == "/etc/imex/list of ours.cfg");
  CHECK(config->server_port == 1101);
  CHECK(config->command_port == 1102);
  CHECK_FALSE(config->command_enabled);
  CHECK(config->quorum == "RECOVERY");
  CHECK(imex::describe(*config) == "node list /etc/imex/list of ours.cfg, server port 1101, command service off");
}

TEST_CASE("a later line of the same key wins") {
  const auto config = parse_daemon_config("SERVER_PORT=1\nIMEX_CMD_ENABLED=0\nSERVER_PORT=2\nIMEX_CMD_ENABLED=1\n");
  REQUIRE(config);
  CHECK(config->server_port == 2);
  CHECK(config->command_enabled);
}

TEST_CASE("an empty node list path means the default") {
  const auto config = parse_daemon_config("IMEX_NODE_CONFIG_FILE=\n");
  REQUIRE(config);
  CHECK(config->nodes_config == "/etc/nvidia-imex/nodes_config.cfg");
}
