#include "farcall/rpc/endpoint.h"

#include <catch2/catch.hpp>
#include <string>

namespace farcall {
namespace {

Endpoint Parsed(std::string_view address) {
  INFO(address);
  absl::StatusOr<Endpoint> endpoint = ParseEndpoint(address);
  REQUIRE(endpoint.ok());
  return *endpoint;
}

std::string Refusal(std::string_view address) {
  INFO(address);
  const absl::StatusOr<Endpoint> endpoint = ParseEndpoint(address);
  CHECK_FALSE(endpoint.ok());
  CHECK(endpoint.status().code() == absl::StatusCode::kInvalidArgument);
  return std::string(endpoint.status().message());
}

TEST_CASE("host and port") {
  const Endpoint endpoint = Parsed("tcp://db.local:7000");
  CHECK(endpoint.scheme == "tcp");
  CHECK(endpoint.host == "db.local");
  CHECK(endpoint.port == 7000);
  CHECK(endpoint.path.empty());
  CHECK(Parsed("TCP://10.0.0.7:65535").scheme == "tcp");
  CHECK(Parsed("tcp://10.0.0.7:65535").port == 65535);
  CHECK(Parsed("tcp://0.0.0.0:0").port == 0);  // for listening: any free port
  CHECK(Parsed("auto://a_b-c.d:1").host == "a_b-c.d");
}

TEST_CASE("IPv6 addresses stand in brackets") {
  for (const char* host : {"::", "::1", "fe80::1%eth0", "1:2:3:4:5:6:7:8",
                           "2001:db8::", "::ffff:10.0.0.7", "1:2:3:4:5:6:1.2.3.4", "A::b"}) {
    INFO(host);
    const Endpoint endpoint = Parsed("tcp://[" + std::string(host) + "]:5");
    CHECK(endpoint.host == host);
    CHECK(endpoint.port == 5);
    CHECK(endpoint.ToString() == "tcp://[" + std::string(host) + "]:5");
  }
  CHECK_THAT(Refusal("tcp://::1:5"), Catch::Contains("brackets"));
  CHECK_THAT(Refusal("tcp://2001:db8::1"), Catch::Contains("brackets"));
  for (const char* host : {"",
                           ":",
                           ":::",
                           "1",
                           "1:2",
                           "1::2::3",
                           "1:2:3:4:5:6:7:8:9",
                           "1:2:3:4:5:6:7::8",
                           "12345::",
                           "::g",
                           "::1.2.3",
                           "::1.2.3.256",
                           "::1.2.3.4.5",
                           "1.2.3.4",
                           "1:",
                           "::1%",
                           "::1% x",
                           "1:2:3:4:5:6:7:1.2.3.4",
                           "localhost",
                           "::1]",
                           "[::1"}) {
    CHECK_THAT(Refusal("tcp://[" + std::string(host) + "]:5"),
               Catch::Contains("address \"tcp://["));
  }
}

TEST_CASE("path-like schemes") {
  CHECK(Parsed("unix:///run/x.sock").path == "/run/x.sock");
  CHECK(Parsed("unix:///run/x.sock").host.empty());
  CHECK(Parsed("loopback://name").path == "name");
  CHECK(Parsed("x-y+z.1://a:b").path == "a:b");
  CHECK(Parsed("unix:///run/my app/x").path == "/run/my app/x");
}

TEST_CASE("ToString is read back to the same endpoint") {
  for (const char* address : {"tcp://h:0", "tcp://[::1]:5", "auto://10.0.0.1:65535", "rdma://a.b:1",
                              "unix:///a b", "loopback://x", "shm://name://y"}) {
    const Endpoint endpoint = Parsed(address);
    CHECK(endpoint.ToString() == address);
    const Endpoint again = Parsed(endpoint.ToString());
    CHECK(again.scheme == endpoint.scheme);
    CHECK(again.host == endpoint.host);
    CHECK(again.port == endpoint.port);
    CHECK(again.path == endpoint.path);
  }
}

TEST_CASE("bad addresses are refused with the reason") {
  const auto [address, reason] = GENERATE(table<std::string, std::string>({
      {"", "empty"},
      {"db.local:7000", "scheme is missing"},
      {"db.local", "scheme is missing"},
      {"tcp:/h:1", "scheme is missing"},
      {"://h:1", "before ://"},
      {"1tcp://h:1", "begin with a letter"},
      {"t cp://h:1", "letters, digits"},
      {" tcp://h:1", "letter"},
      {"tcp://", "host and port are missing"},
      {"tcp://h", "the port is missing"},
      {"tcp://h:", "the port is missing"},
      {"tcp://:7000", "the host is missing"},
      {"tcp://h:65536", "above 65535"},
      {"tcp://h:99999999999999999999999", "above 65535"},
      {"tcp://h:-1", "decimal"},
      {"tcp://h:+1", "decimal"},
      {"tcp://h: 1", "decimal"},
      {"tcp://h:1 ", "decimal"},
      {"tcp://h:1/", "decimal"},
      {"tcp://h:0x10", "decimal"},
      {"tcp://h:http", "decimal"},
      {"tcp://h:0080", "leading zeros"},
      {"tcp://h:00", "leading zeros"},
      {"tcp://h h:1", "letters, digits"},
      {"tcp://user@h:1", "letters, digits"},
      {"tcp://h/x:1", "letters, digits"},
      {"tcp://*:1", "0.0.0.0 or [::]"},
      {"tcp://b\xc3\xbc"
       "cher:1",
       "xn--"},
      {"tcp://a..b:1", "empty label"},
      {"tcp://.a:1", "begins with"},
      {"tcp://-a:1", "begins with"},
      {"tcp://[::1:5", "not closed"},
      {"tcp://[::1]", "the port is missing"},
      {"tcp://[::1]5", "only :port"},
      {"tcp://[::1]:", "the port is missing"},
      {"tcp://" + std::string(254, 'a') + ":1", "longer than 253"},
      {"tcp://" + std::string(5000, 'a') + ":1", "longer than 4096"},
      {std::string("tcp://h\0:1", 10), "control character"},
      {std::string("unix:///a\0b", 11), "control character"},
      {"tcp://h:1\n", "control character"},
      {"unix://", "path or name"},
      {"unix:// /x", "space"},
      {"loopback://x ", "space"},
  }));
  CHECK_THAT(Refusal(address), Catch::Contains(reason));
}

TEST_CASE("an address in an error is short and printable") {
  const std::string message = Refusal("tcp://h\x1b[2J\x80" + std::string(4000, 'a'));
  CHECK(message.size() < 300);
  for (const char c : message.substr(0, 50)) CHECK(static_cast<unsigned char>(c) >= 0x20);
  CHECK_THAT(message, Catch::Contains("\\x1b") && Catch::Contains("\\x80"));
}

}  // namespace
}  // namespace farcall
