#include "farcall/rpc/endpoint.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"

namespace farcall {
namespace {

constexpr size_t kMaxAddressBytes =
    4096;                              // nobody types more: a larger one is garbage or an attack
constexpr size_t kMaxHostBytes = 253;  // of a DNS name (RFC 1035)
constexpr char kSchemeEnd[] = "://";

constexpr std::array<std::string_view, 3> kHostPortSchemes = {"tcp", "rdma", "auto"};

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsLower(char c) { return c >= 'a' && c <= 'z'; }
bool IsHex(char c) { return IsDigit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }
char Lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }
bool IsControl(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }

bool TakesHostAndPort(std::string_view scheme) {
  return std::find(kHostPortSchemes.begin(), kHostPortSchemes.end(), scheme) !=
         kHostPortSchemes.end();
}

// The address in an error, made safe to print.
std::string Quoted(std::string_view address) {
  constexpr size_t kShown = 100;
  std::string text = "\"";
  for (const char c : address.substr(0, kShown)) {
    if (IsControl(c) || static_cast<unsigned char>(c) >= 0x80) {
      absl::StrAppend(&text, "\\x", absl::Hex(static_cast<unsigned char>(c), absl::kZeroPad2));
    } else {
      text.push_back(c);
    }
  }
  return absl::StrCat(text, address.size() > kShown ? "…\"" : "\"");
}

// What is wrong with a part of the address; empty when nothing is.
using Complaint = std::string;

Complaint CheckScheme(std::string_view scheme) {
  if (scheme.empty()) return "the scheme before :// is missing";
  if (!IsLower(scheme.front())) return "the scheme must begin with a letter";
  for (const char c : scheme) {
    if (!IsLower(c) && !IsDigit(c) && c != '+' && c != '-' && c != '.') {
      return "the scheme may hold letters, digits, '+', '-' and '.' only";
    }
  }
  return "";
}

Complaint CheckHostName(std::string_view host) {
  if (host.empty()) return "the host is missing";
  if (host == "*") return "'*' is no host: to listen everywhere write 0.0.0.0 or [::]";
  if (host.size() > kMaxHostBytes) {
    return absl::StrCat("the host is longer than ", kMaxHostBytes, " bytes");
  }
  if (host.front() == '.' || host.front() == '-') return "the host begins with '.' or '-'";
  char before = 0;
  for (const char c : host) {
    if (!IsDigit(c) && !IsLower(Lower(c)) && c != '.' && c != '-' && c != '_') {
      return "the host may hold letters, digits, '.', '-' and '_' only (write an international "
             "name in its xn-- form)";
    }
    if (c == '.' && before == '.') return "the host has an empty label";
    before = c;
  }
  return "";
}

// "1.2.3.4", the tail of an IPv6 address that carries an IPv4 one.
bool IsDottedQuad(std::string_view text) {
  for (int part = 0; part < 4; ++part) {
    size_t digits = 0;
    int value = 0;
    while (digits < text.size() && digits < 3 && IsDigit(text[digits])) {
      value = value * 10 + (text[digits++] - '0');
    }
    if (digits == 0 || value > 255) return false;
    text.remove_prefix(digits);
    if (part == 3) return text.empty();
    if (text.empty() || text.front() != '.') return false;
    text.remove_prefix(1);
  }
  return false;
}

// Eight groups of up to four hex digits, "::" once for a run of zero groups, a dotted quad for the
// last two, and an optional %zone.
bool IsIpv6(std::string_view text) {
  if (const size_t percent = text.find('%'); percent != std::string_view::npos) {
    const std::string_view zone = text.substr(percent + 1);
    if (zone.empty() || !CheckHostName(zone).empty()) return false;
    text = text.substr(0, percent);
  }
  int groups = 0;
  bool elided = false;
  if (text.substr(0, 2) == "::") {
    elided = true;
    text.remove_prefix(2);
    if (text.empty()) return true;
  }
  while (true) {
    if (text.find(':') == std::string_view::npos && IsDottedQuad(text)) {
      groups += 2;
      break;
    }
    size_t digits = 0;
    while (digits < text.size() && IsHex(text[digits])) ++digits;
    if (digits == 0 || digits > 4) return false;
    ++groups;
    text.remove_prefix(digits);
    if (text.empty()) break;
    if (text.front() != ':') return false;
    text.remove_prefix(1);
    if (text.empty()) return false;  // ends with one colon
    if (text.front() == ':') {
      if (std::exchange(elided, true)) return false;
      text.remove_prefix(1);
      if (text.empty()) break;
    }
  }
  return elided ? groups < 8 : groups == 8;
}

Complaint ReadPort(std::string_view text, uint16_t& port) {
  if (text.empty()) return "the port is missing";
  uint32_t value = 0;
  for (const char c : text) {
    if (!IsDigit(c)) return "the port must be a decimal number";
    value = value * 10 + static_cast<uint32_t>(c - '0');
    if (value > 65535) return "the port is above 65535";
  }
  if (text.size() > 1 && text.front() == '0') return "the port has leading zeros";
  port = static_cast<uint16_t>(value);
  return "";
}

Complaint ReadHostAndPort(std::string_view rest, Endpoint& endpoint) {
  if (rest.empty()) return "host and port are missing";
  std::string_view after;  // ":port"
  if (rest.front() == '[') {
    const size_t close = rest.find(']');
    if (close == std::string_view::npos) return "the bracket around the IPv6 address is not closed";
    endpoint.host = std::string(rest.substr(1, close - 1));
    if (!IsIpv6(endpoint.host)) return "what stands in brackets is not an IPv6 address";
    after = rest.substr(close + 1);
    if (!after.empty() && after.front() != ':') return "after ']' only :port may follow";
  } else {
    const size_t colon = rest.find(':');
    endpoint.host = std::string(rest.substr(0, colon));
    if (colon != std::string_view::npos) after = rest.substr(colon);
    if (after.substr(std::min<size_t>(after.size(), 1)).find(':') != std::string_view::npos) {
      return "an IPv6 address must stand in brackets: tcp://[::1]:7000";
    }
    if (Complaint wrong = CheckHostName(endpoint.host); !wrong.empty()) return wrong;
  }
  if (after.empty()) return "the port is missing: write host:port";
  return ReadPort(after.substr(1), endpoint.port);
}

Complaint ReadPath(std::string_view rest, Endpoint& endpoint) {
  if (rest.empty()) return "the path or name after :// is missing";
  if (rest.front() == ' ' || rest.back() == ' ') return "a space stands before or after the path";
  endpoint.path = std::string(rest);
  return "";
}

}  // namespace

std::string Endpoint::ToString() const {
  if (!TakesHostAndPort(scheme)) return absl::StrCat(scheme, kSchemeEnd, path);
  const bool v6 = host.find(':') != std::string::npos;
  return absl::StrCat(scheme, kSchemeEnd, v6 ? "[" : "", host, v6 ? "]:" : ":", port);
}

absl::StatusOr<Endpoint> ParseEndpoint(std::string_view address) {
  Endpoint endpoint;
  const auto read = [&]() -> Complaint {
    if (address.empty()) return "it is empty: write scheme://host:port";
    if (address.size() > kMaxAddressBytes) {
      return absl::StrCat("it is longer than ", kMaxAddressBytes, " bytes");
    }
    if (std::any_of(address.begin(), address.end(), IsControl)) {
      return "it holds a control character";
    }
    const size_t end = address.find(kSchemeEnd);
    if (end == std::string_view::npos) return "the scheme is missing: write tcp://host:port";
    endpoint.scheme = std::string(address.substr(0, end));
    std::transform(endpoint.scheme.begin(), endpoint.scheme.end(), endpoint.scheme.begin(), Lower);
    if (Complaint wrong = CheckScheme(endpoint.scheme); !wrong.empty()) return wrong;
    const std::string_view rest = address.substr(end + sizeof(kSchemeEnd) - 1);
    return TakesHostAndPort(endpoint.scheme) ? ReadHostAndPort(rest, endpoint)
                                             : ReadPath(rest, endpoint);
  };
  if (const Complaint wrong = read(); !wrong.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("address ", Quoted(address), ": ", wrong));
  }
  return endpoint;
}

}  // namespace farcall
