#include "farcall/tests/transports/conformance.h"

#include <catch2/catch.hpp>

#include "farcall/tests/transports/conformance/arena.h"
#include "farcall/tests/transports/conformance/cases.h"

namespace farcall::testing {
namespace {

const char* Name(Layout layout) {
  switch (layout) {
    case Layout::kOneLoop:
      return "one loop, stepped";
    case Layout::kTwoLoops:
      return "two loops, stepped";
    case Layout::kThreads:
      return "two loops with threads";
  }
  return "";
}

void RunAll(const TransportUnderTest& subject, Layout layout, std::span<const Case> cases) {
  for (const Case& promise : cases) {
    SECTION(promise.name) {
      Arena arena(subject, layout, promise.limits);
      promise.run(arena);
      arena.Finish();
    }
  }
}

}  // namespace

void RunTransportConformance(const TransportUnderTest& subject) {
  for (Layout layout : {Layout::kOneLoop, Layout::kTwoLoops, Layout::kThreads}) {
    SECTION(Name(layout)) {
      RunAll(subject, layout, ContentCases());
      RunAll(subject, layout, OrderCases());
      RunAll(subject, layout, SendingCases());
      RunAll(subject, layout, ReceivingCases());
      RunAll(subject, layout, ClosingCases());
      RunAll(subject, layout, UserMemoryCases());
      RunAll(subject, layout, ConnectingCases());
    }
  }
}

}  // namespace farcall::testing
