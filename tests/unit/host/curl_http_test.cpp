// HTTP against servers on loopback that behave as badly as a server can.
#include "host/curl_http.h"

#include <signal.h>
#include <stdlib.h>

#include <catch2/catch_test_macros.hpp>

#include "base/text.h"
#include "host/interrupt.h"
#include "scripted_server.h"

using base::ExitCode;
using host::CurlHttp;
using host::HttpRequest;
using tests::Connection;
using tests::ScriptedServer;
using namespace std::chrono_literals;

namespace {

HttpRequest get(const std::string& url) {
  HttpRequest request;
  request.method = "GET";
  request.url = url;
  request.connect_limit = 5s;
  request.limit = 20s;
  request.body_cap = 4096;
  return request;
}

HttpRequest get(const ScriptedServer& server, const std::string& path) {
  return get("http://127.0.0.1:" + std::to_string(server.port()) + path);
}

std::string answer(const std::string& status, const std::string& body) {
  return "HTTP/1.1 " + status + "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

// A port of loopback on which nobody listens.
int closed_port() {
  const ScriptedServer server(AF_INET, [](Connection&) {});
  return server.port();
}

}  // namespace

TEST_CASE("an answer comes back with its status and body, whatever the status") {
  for (const std::string status : {"200 OK", "401 Unauthorized", "404 Not Found", "503 Service Unavailable"}) {
    const ScriptedServer server(AF_INET, [&](Connection& connection) {
      connection.request();
      connection.say(answer(status, "p6e-gb200.36xlarge"));
    });
    const auto got = CurlHttp().send(get(server, "/latest/meta-data/instance-type"));
    REQUIRE(got);
    CHECK(std::to_string(got->status) == status.substr(0, 3));
    CHECK(got->body == "p6e-gb200.36xlarge");
  }
}

TEST_CASE("a request is what it is told to be and nothing more") {
  std::string seen;
  const ScriptedServer server(AF_INET, [&](Connection& connection) {
    seen = connection.request();
    connection.say(answer("200 OK", "token"));
  });
  HttpRequest request = get(server, "/latest/api/token");
  request.method = "PUT";
  request.headers = {"X-aws-ec2-metadata-token-ttl-seconds: 60"};
  const auto got = CurlHttp().send(request);
  REQUIRE(got);
  CHECK(got->body == "token");
  CHECK(
      seen.starts_with("PUT /latest/api/token HTTP/1.1\r\nHost: 127.0.0.1:" + std::to_string(server.port()) + "\r\n"));
  CHECK(seen.find("\r\nX-aws-ec2-metadata-token-ttl-seconds: 60\r\n") != std::string::npos);
  CHECK(seen.find("\r\nContent-Length: 0\r\n") != std::string::npos);
  CHECK(seen.find("\r\nUser-Agent: gpu-prolog/") != std::string::npos);
  CHECK(seen.find("Expect") == std::string::npos);
  CHECK(seen.find("X-Forwarded-For") == std::string::npos);
}

TEST_CASE("two calls to one server share a connection") {
  const ScriptedServer server(AF_INET, [&](Connection& connection) {
    while (!connection.request().empty()) connection.say(answer("200 OK", "x"));
  });
  CurlHttp http;
  HttpRequest put = get(server, "/token");
  put.method = "PUT";
  CHECK(http.send(put));
  CHECK(http.send(get(server, "/type"))->body == "x");
  CHECK(server.connections() == 1);
}

TEST_CASE("an IPv6 literal works") {
  std::unique_ptr<ScriptedServer> server;
  try {
    server = std::make_unique<ScriptedServer>(AF_INET6, [](Connection& connection) {
      connection.request();
      connection.say(answer("200 OK", "six"));
    });
  } catch (const std::runtime_error&) {
    SKIP("needs IPv6 on loopback");
  }
  const auto got = CurlHttp().send(get("http://[::1]:" + std::to_string(server->port()) + "/"));
  REQUIRE(got);
  CHECK(got->body == "six");
}

TEST_CASE("localhost works without a name service") {
  const ScriptedServer server(AF_INET, [](Connection& connection) {
    connection.request();
    connection.say(answer("200 OK", "local"));
  });
  const auto got = CurlHttp().send(get("http://localhost:" + std::to_string(server.port()) + "/"));
  REQUIRE(got);
  CHECK(got->body == "local");
}

TEST_CASE("proxies of the environment are not used") {
  const ScriptedServer proxy(AF_INET, [](Connection& connection) {
    connection.request();
    connection.say(answer("200 OK", "from the proxy"));
  });
  const ScriptedServer server(AF_INET, [](Connection& connection) {
    connection.request();
    connection.say(answer("200 OK", "direct"));
  });
  const std::string url = "http://127.0.0.1:" + std::to_string(proxy.port());
  const auto names = {"http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"};
  for (const char* name : names) setenv(name, url.c_str(), 1);
  const auto got = CurlHttp().send(get(server, "/"));
  for (const char* name : names) unsetenv(name);
  REQUIRE(got);
  CHECK(got->body == "direct");
  CHECK(proxy.connections() == 0);
}

TEST_CASE("a redirect is an answer and is not followed") {
  const ScriptedServer elsewhere(AF_INET, [](Connection& connection) {
    connection.request();
    connection.say(answer("200 OK", "elsewhere"));
  });
  const ScriptedServer server(AF_INET, [&](Connection& connection) {
    connection.request();
    connection.say("HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:" + std::to_string(elsewhere.port()) +
                   "/\r\nContent-Length: 0\r\n\r\n");
  });
  const auto got = CurlHttp().send(get(server, "/"));
  REQUIRE(got);
  CHECK(got->status == 302);
  CHECK(elsewhere.connections() == 0);
}

TEST_CASE("a refused connection is told at once, with the URL") {
  const std::string url = "http://127.0.0.1:" + std::to_string(closed_port()) + "/latest/api/token";
  const auto got = CurlHttp().send(get(url));
  REQUIRE_FALSE(got);
  CHECK(got.error().code == ExitCode::source);
  CHECK(got.error().what == "cannot GET " + url + ": connection refused");
}

TEST_CASE("a server that never answers ends the call at its limit") {
  const ScriptedServer server(AF_INET, [](Connection& connection) { connection.pause(60s); });
  HttpRequest request = get(server, "/");
  request.limit = 300ms;
  const auto begun = std::chrono::steady_clock::now();
  const auto got = CurlHttp().send(request);
  CHECK(std::chrono::steady_clock::now() - begun < 10s);
  REQUIRE_FALSE(got);
  CHECK(got.error().code == ExitCode::time_out);
  CHECK(got.error().what == "cannot GET " + request.url + ": no whole answer within 0.30 s");
}

TEST_CASE("a server that drips its header or its body ends the call at its limit") {
  for (const std::string begin : {"", "HTTP/1.1 200 OK\r\nContent-Length: 4000\r\n\r\n"}) {
    const ScriptedServer server(AF_INET, [&](Connection& connection) {
      connection.request();
      connection.say(begin);
      while (connection.say("H") && connection.pause(20ms)) {
      }
    });
    HttpRequest request = get(server, "/");
    request.limit = 400ms;
    const auto begun = std::chrono::steady_clock::now();
    const auto got = CurlHttp().send(request);
    CHECK(std::chrono::steady_clock::now() - begun < 10s);
    REQUIRE_FALSE(got);
    CHECK(got.error().what.starts_with("cannot GET " + request.url + ": "));
    // "HHHH..." is no HTTP/1.1 header, and curl may say so before the limit.
    if (!begin.empty()) CHECK(got.error().code == ExitCode::time_out);
  }
}

TEST_CASE("a header that never ends is cut off") {
  const ScriptedServer server(AF_INET, [](Connection& connection) {
    connection.request();
    connection.say("HTTP/1.1 200 OK\r\n");
    const std::string line = "X-Filler: " + std::string(1000, 'x') + "\r\n";
    while (connection.say(line)) {
    }
  });
  const auto got = CurlHttp().send(get(server, "/"));
  REQUIRE_FALSE(got);
  CHECK(got.error().code == ExitCode::source);
  CHECK(got.error().what.ends_with(": the answer's headers are larger than 16384 bytes"));
}

TEST_CASE("an answer larger than the cap is cut off, announced or not") {
  for (const std::string header : {"Content-Length: 5000\r\n", "Transfer-Encoding: chunked\r\n", ""}) {
    const ScriptedServer server(AF_INET, [&](Connection& connection) {
      connection.request();
      connection.say("HTTP/1.1 200 OK\r\n" + header + "\r\n");
      const std::string piece =
          header.starts_with("T") ? "64\r\n" + std::string(100, 'b') + "\r\n" : std::string(100, 'b');
      while (connection.say(piece)) {
      }
    });
    const auto got = CurlHttp().send(get(server, "/"));
    REQUIRE_FALSE(got);
    CHECK(got.error().code == ExitCode::source);
    CHECK(got.error().what.ends_with(": the answer is larger than 4096 bytes"));
  }
}

TEST_CASE("an answer of exactly the cap is taken") {
  const ScriptedServer server(AF_INET, [](Connection& connection) {
    connection.request();
    connection.say(answer("200 OK", std::string(4096, 'b')));
  });
  CHECK(CurlHttp().send(get(server, "/"))->body.size() == 4096);
}

TEST_CASE("half an answer, no answer and no HTTP are told apart") {
  const auto error_of = [](const std::string& said) {
    const ScriptedServer server(AF_INET, [&](Connection& connection) {
      connection.request();
      if (!said.empty()) connection.say(said);
    });
    const auto got = CurlHttp().send(get(server, "/"));
    return got ? "an answer: " + got->body : got.error().what.substr(got.error().what.find("/: ") + 3);
  };
  CHECK(error_of("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf") == "the answer was cut short");
  CHECK(error_of("") == "the connection was closed without an answer");
  CHECK(error_of("SSH-2.0-OpenSSH_9.2\r\n\r\n") == "the answer is no HTTP");
  CHECK(error_of("HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\nx") == "the answer is no HTTP");
}

TEST_CASE("only plain HTTP to an address is sent") {
  const auto error_of = [](const std::string& url) {
    const auto got = CurlHttp().send(get(url));
    return got ? "an answer" : got.error().what;
  };
  CHECK(error_of("file:///etc/passwd") == "cannot GET file:///etc/passwd: only http:// is used here");
  CHECK(error_of("https://127.0.0.1/").ends_with("only http:// is used here"));
  CHECK(error_of("http://example.com/").ends_with("its host is no IP address (names are not looked up)"));
  CHECK(error_of("http://user:word@127.0.0.1/").ends_with("it holds a user name"));
  CHECK(error_of("").ends_with("it is no URL"));
  CHECK(error_of("http://127.0.0.1:99999/").ends_with("it is no URL"));
  CHECK(error_of(std::string("http://127.0.0.1/\0x", 19)).ends_with("it holds a zero byte"));
}

TEST_CASE("a stop signal ends a call") {
  host::catch_stop_signals();
  const ScriptedServer server(AF_INET, [](Connection& connection) { connection.pause(60s); });
  std::thread later([] {
    std::this_thread::sleep_for(200ms);
    raise(SIGTERM);  // in this thread, so that the wait does not see EINTR
  });
  HttpRequest request = get(server, "/");
  request.limit = 50s;
  CurlHttp http;
  const auto begun = std::chrono::steady_clock::now();
  const auto got = http.send(request);
  later.join();
  CHECK(std::chrono::steady_clock::now() - begun < 25s);
  REQUIRE_FALSE(got);
  CHECK(got.error().code == ExitCode::time_out);
  CHECK(got.error().what.ends_with(": gpu-prolog was told to stop"));
  CHECK_FALSE(http.send(request));
  host::release_stop_signals();
}

TEST_CASE("a call with no time left is not made") {
  const ScriptedServer server(AF_INET, [](Connection&) {});
  HttpRequest request = get(server, "/");
  request.limit = 0ms;
  const auto got = CurlHttp().send(request);
  REQUIRE_FALSE(got);
  CHECK(got.error().code == ExitCode::time_out);
  CHECK(server.connections() == 0);
}

TEST_CASE("after a failed call the next one works") {
  bool bad = true;
  const ScriptedServer server(AF_INET, [&](Connection& connection) {
    connection.request();
    connection.say(bad ? answer("200 OK", std::string(9000, 'x')) : answer("200 OK", "good"));
  });
  CurlHttp http;
  CHECK_FALSE(http.send(get(server, "/")));
  bad = false;
  const auto got = http.send(get(server, "/"));
  REQUIRE(got);
  CHECK(got->body == "good");
}
