// The instance type: IMDSv2 first, the firmware's product name else, and never longer than 8 s.
#include "ec2/instance_type.h"

#include <catch2/catch_test_macros.hpp>
#include <cerrno>

#include "fakes/fake_clock.h"
#include "fakes/fake_files.h"
#include "fakes/fake_http.h"
#include "fakes/memory_log.h"
#include "site/site.h"

using namespace std::chrono_literals;
using ec2::acceptable_endpoint;

namespace {

const std::string dmi = "/sys/class/dmi/id/product_name";
const std::string token = "AQAEAHJ1c3R5LXRva2Vu==";

struct World {
  fakes::FakeClock clock;
  fakes::FakeHttp http{clock};
  fakes::FakeFiles files;
  fakes::MemoryLog log;
  std::optional<std::string> endpoint = "http://169.254.169.254";

  ec2::InstanceType find() { return ec2::find_instance_type(http, clock, files, log, endpoint, site::imds_limit); }
  host::milliseconds took() const {
    return std::chrono::duration_cast<host::milliseconds>(clock.now().time_since_epoch());
  }
};

host::Environment with_endpoint(const std::string& value) {
  return host::Environment({{"AWS_EC2_METADATA_SERVICE_ENDPOINT", value}});
}

}  // namespace

// --- what a type and an endpoint look like -----------------------------------------------------------------

TEST_CASE("texts that are no instance type") {
  for (const std::string& text :
       {std::string(), std::string("p6e"), std::string("p6e-gb200"), std::string("P6E-GB200.36xlarge"),
        std::string("p6e-gb200.36xlarge.x"), std::string("p6e gb200.36xlarge"), std::string("p6e-gb200.36xlarge\n"),
        std::string("<html>.</html>"), std::string(".36xlarge"), std::string("p6e-gb200."), std::string("-p6e.xlarge"),
        std::string("p6e.xlarge-"), std::string("a.b"), std::string(60, 'a') + ".large",
        std::string("p6e-gb200.36xlarge\0", 19)}) {
    INFO(text);
    CHECK_FALSE(ec2::looks_like_type(text));
  }
}

TEST_CASE("instance types of every family look like one") {
  for (const char* text :
       {"p6e-gb200.36xlarge", "p6e-gb300.36xlarge", "p5en.48xlarge", "u-24tb1.112xlarge", "mac2-m2.metal", "t3.nano"}) {
    CHECK(ec2::looks_like_type(text));
  }
}

TEST_CASE("endpoints that would need a name look-up, another scheme or a path are refused") {
  for (const char* text : {"",
                           "http://",
                           "169.254.169.254",
                           "https://169.254.169.254",
                           "ftp://169.254.169.254",
                           "http://imds.example",
                           "http://169.254.169.254/latest",
                           "http://169.254.169.254?x",
                           "http://169.254.169.254#x",
                           "http://user@169.254.169.254",
                           "http://169.254.169.254@evil.example",
                           "http://169.254.169.254:0",
                           "http://169.254.169.254:65536",
                           "http://169.254.169.254:",
                           "http://169.254.169.254:80:80",
                           "http://169.254.169.254:80x",
                           "http://169.254.169",
                           "http://0x7f000001",
                           "http://2130706433",
                           "http://[fd00:ec2::254",
                           "http://[fd00:ec2::254]x",
                           "http://[10.0.0.1]",
                           "http://[]",
                           "http://fd00:ec2::254",
                           "http://localhost.example",
                           "http://localhost:x",
                           " http://169.254.169.254",
                           "http://169.254.169.254 ",
                           "http://169.254.169.254\r\nX: y",
                           "http://[fe80::1%25eth0]"}) {
    INFO(text);
    CHECK(acceptable_endpoint(text) == std::nullopt);
  }
}

TEST_CASE("an IP literal or localhost, with or without port, is accepted") {
  CHECK(acceptable_endpoint("http://169.254.169.254") == "http://169.254.169.254");
  CHECK(acceptable_endpoint("HTTP://169.254.169.254/") == "http://169.254.169.254");
  CHECK(acceptable_endpoint("http://127.0.0.1:8080//") == "http://127.0.0.1:8080");
  CHECK(acceptable_endpoint("http://[fd00:ec2::254]") == "http://[fd00:ec2::254]");
  CHECK(acceptable_endpoint("http://[::1]:8080") == "http://[::1]:8080");
  CHECK(acceptable_endpoint("http://localhost:8080") == "http://127.0.0.1:8080");
  CHECK(acceptable_endpoint("http://LocalHost") == "http://127.0.0.1");
}

TEST_CASE("an unacceptable endpoint is warned of, without what it could forge, and the default asked") {
  fakes::MemoryLog log;
  CHECK(ec2::imds_endpoint(with_endpoint("https://evil.example\n[ERROR] forged"), false, log) ==
        "http://169.254.169.254");
  REQUIRE(log.lines.size() == 1);
  CHECK(log.has("WARN AWS_EC2_METADATA_SERVICE_ENDPOINT=https://evil.example\\x0a[ERROR] forged is not used"));
}

TEST_CASE("under a root folder nobody is asked, but where the variable says whom") {
  fakes::MemoryLog log;
  CHECK(ec2::imds_endpoint(host::Environment(), true, log) == std::nullopt);
  CHECK(ec2::imds_endpoint(with_endpoint("ftp://x"), true, log) == std::nullopt);
  CHECK(ec2::imds_endpoint(with_endpoint("http://127.0.0.1:5"), true, log) == "http://127.0.0.1:5");
}

TEST_CASE("an empty or unset variable means the default") {
  fakes::MemoryLog log;
  CHECK(ec2::imds_endpoint(host::Environment(), false, log) == "http://169.254.169.254");
  CHECK(ec2::imds_endpoint(with_endpoint(""), false, log) == "http://169.254.169.254");
  CHECK(log.lines.empty());
}

// --- asking ------------------------------------------------------------------------------------------------

TEST_CASE("a service that says no is not asked again: 400, 403 and 404 are final") {
  for (const long status : {400L, 403L, 404L, 301L, 204L}) {
    World world;
    world.http.answer(status, "");
    const auto type = world.find();
    CHECK(type.name.empty());
    CHECK(type.source.find("answered " + std::to_string(status)) != std::string::npos);
    CHECK(world.http.calls.size() == 1);
    CHECK(world.clock.slept == 0ms);
  }
}

TEST_CASE("a type that is not there is final too") {
  World world;
  world.http.answer(200, token).answer(404, "<html>not found</html>");
  CHECK(world.find().name.empty());
  CHECK(world.http.calls.size() == 2);
}

TEST_CASE("a busy service is asked three times in all") {
  for (const long status : {429L, 500L, 503L}) {
    World world;
    world.http.answer(status, "").answer(status, "").answer(status, "");
    CHECK(world.find().name.empty());
    CHECK(world.http.calls.size() == 3);
    CHECK(world.took() <= 8s);
  }
}

TEST_CASE("nobody answers: three tries and at most 8 s") {
  World world;
  world.http.hang().hang().hang();
  const auto type = world.find();
  CHECK(type.name.empty());
  CHECK(world.http.calls.size() == 3);
  CHECK(world.took() <= 8s);
  for (const auto& call : world.http.calls) {
    CHECK(call.connect_limit == 1s);
    CHECK(call.limit == 2s);
  }
}

TEST_CASE("slow answers and hanging ones together stay within 8 s") {
  struct Slow : host::Http {
    explicit Slow(fakes::FakeClock& its_clock) : clock(its_clock) {}
    base::Result<host::HttpAnswer> send(const host::HttpRequest& request) override {
      ++calls;
      if (request.method == "PUT") {
        clock.pass(std::min<host::milliseconds>(request.limit, 1500ms));
        return host::HttpAnswer{200, token};
      }
      clock.pass(request.limit);
      return base::Error{base::ExitCode::time_out, "no answer within the limit", ""};
    }
    fakes::FakeClock& clock;
    int calls = 0;
  };
  World world;
  Slow http(world.clock);
  const auto type =
      ec2::find_instance_type(http, world.clock, world.files, world.log, world.endpoint, site::imds_limit);
  CHECK(type.name.empty());
  CHECK(http.calls == 5);  // the third token took the rest
  CHECK(world.took() <= 8s);
}

TEST_CASE("a stop signal ends the tries") {
  World world;
  world.http.fail("connection refused");
  world.clock.interrupted = true;
  CHECK(world.find().name.empty());
  CHECK(world.http.calls.size() == 1);
}

TEST_CASE("a token that would break the header line is not sent on") {
  for (const std::string& bad : {std::string(), std::string("a b"), std::string("a\r\nHost: evil"),
                                 std::string("a\x7f"), std::string("a\xc3\xa4"), std::string(1025, 'a')}) {
    World world;
    world.http.answer(200, bad);
    const auto type = world.find();
    CHECK(type.name.empty());
    CHECK(type.source.find("no token") != std::string::npos);
    CHECK(world.http.calls.size() == 1);
  }
}

TEST_CASE("garbage for a type is shown, short and printable, and not used") {
  World world;
  world.http.answer(200, token).answer(200, "<html>\x1b[31m" + std::string(4000, 'x'));
  const auto type = world.find();
  CHECK(type.name.empty());
  CHECK(type.source.find("IMDS answered '<html>\\x1b[31m") == 0);
  CHECK(type.source.find('\x1b') == std::string::npos);
  CHECK(type.source.size() < 300);
}

TEST_CASE("a token that went stale is fetched anew") {
  World world;
  world.http.answer(200, "old").answer(401, "").answer(200, "new").answer(200, "p6e-gb200.36xlarge");
  const auto type = world.find();
  CHECK(type.name == "p6e-gb200.36xlarge");
  CHECK(type.source == "IMDS");
  CHECK(world.http.calls.back().headers == std::vector<std::string>{"X-aws-ec2-metadata-token: new"});
}

TEST_CASE("one failed try is made good by the next") {
  World world;
  world.http.fail("connection refused").answer(200, token).answer(200, "p6e-gb300.36xlarge\n");
  CHECK(world.find().name == "p6e-gb300.36xlarge");
}

TEST_CASE("IMDSv2: a token by PUT, the type by GET with it, small answers only") {
  World world;
  world.http.answer(200, token + "\n").answer(200, "p5en.48xlarge");
  const auto type = world.find();
  CHECK(type.name == "p5en.48xlarge");
  REQUIRE(world.http.calls.size() == 2);
  CHECK(world.http.calls[0].method == "PUT");
  CHECK(world.http.calls[0].url == "http://169.254.169.254/latest/api/token");
  CHECK(world.http.calls[0].headers == std::vector<std::string>{"X-aws-ec2-metadata-token-ttl-seconds: 21600"});
  CHECK(world.http.calls[1].method == "GET");
  CHECK(world.http.calls[1].url == "http://169.254.169.254/latest/meta-data/instance-type");
  CHECK(world.http.calls[1].headers == std::vector<std::string>{"X-aws-ec2-metadata-token: " + token});
  for (const auto& call : world.http.calls) CHECK(call.body_cap == 4096);
}

// --- the firmware ------------------------------------------------------------------------------------------

TEST_CASE("where neither knows, both are told") {
  World world;
  world.http.answer(403, "");
  SECTION("no product name") {}
  SECTION("a product name of another maker") { world.files.file(dmi, "KVM Virtual Machine\n"); }
  SECTION("one that cannot be read") { world.files.fail_read(dmi, EACCES); }
  const auto type = world.find();
  CHECK(type.name.empty());
  CHECK(type.source.find("answered 403; ") != std::string::npos);
}

TEST_CASE("without an answer of IMDS the firmware's product name is the type") {
  World world;
  world.http.answer(403, "");
  world.files.file(dmi, "p6e-gb200.36xlarge\n");
  const auto type = world.find();
  CHECK(type.name == "p6e-gb200.36xlarge");
  CHECK(type.source == "DMI");
}

TEST_CASE("where IMDS may not be asked the firmware alone is") {
  World world;
  world.endpoint.reset();
  world.files.file(dmi, "p6e-gb200.36xlarge");
  CHECK(world.find().source == "DMI");
  CHECK(world.http.calls.empty());
}

// --- supported ---------------------------------------------------------------------------------------------

TEST_CASE("a type is supported by the prefix it begins with, an empty prefix supports nothing") {
  const std::vector<std::string> prefixes{"", "p6e-gb200", "p6e-gb300"};
  CHECK(ec2::supported_by("p6e-gb300.36xlarge", prefixes) == "p6e-gb300");
  CHECK(ec2::supported_by("p5en.48xlarge", prefixes) == std::nullopt);
  CHECK(ec2::supported_by("xp6e-gb200.36xlarge", prefixes) == std::nullopt);
  CHECK(ec2::supported_by("p6e-gb20", prefixes) == std::nullopt);
  CHECK(ec2::supported_by("p6e-gb200.36xlarge", {}) == std::nullopt);
}
