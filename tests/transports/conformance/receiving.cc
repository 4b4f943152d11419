// Receiving: nothing before Start, Admit decides, Abandon stops.

#include <catch2/catch.hpp>
#include <map>
#include <utility>
#include <vector>

#include "farcall/tests/transports/conformance/cases.h"

namespace farcall::testing {
namespace {

void NothingBeforeStart(Arena& arena) {
  const Pair pair = arena.Connect(/*start=*/false);
  pair.client.Start();
  for (size_t body : {size_t{10}, 300 * KiB, 64 * KiB}) pair.client.Send({.body = body});
  arena.RunFor(kQuiet);
  CHECK(pair.server.admitted() == 0);
  pair.server.Start();
  CHECK(arena.RunUntil([&] { return pair.server.received() == 3; }));
}

void AdmitRefuses(Arena& arena) {
  const Pair pair = arena.Connect(/*start=*/false);
  pair.server.hooks.admit = [](Ticket ticket, MessageSizes) {
    Admission admission;
    if (ticket % 3 != 0) admission.refused = absl::ResourceExhaustedError("too large for me");
    return admission;
  };
  pair.client.Start();
  pair.server.Start();
  constexpr size_t kSizes[] = {kAbsent, 1,           10 * KiB, 64 * KiB, 64 * KiB + 1,
                               1 * MiB, 1 * MiB + 1, 16 * MiB, 5,        300 * KiB};
  std::vector<Sent> sends;
  for (size_t i = 0; i < 30; ++i) {
    sends.push_back(pair.client.Send({.body = kSizes[i % 10], .attachment = kSizes[i / 3]}));
  }
  CHECK(arena.RunUntil([&] { return pair.server.received() == 10; }));
  // The sender's side of a refusal is an ordinary end: the wire is done with the message.
  CHECK(arena.RunUntil([&] { return pair.client.outcomes() == sends.size(); }));
  for (Sent sent : sends) CHECK(pair.client.outcome(sent)->status == absl::OkStatus());
  CHECK(pair.server.admitted() == sends.size());
}

void AdmitGivesABufferForTheAttachment(Arena& arena) {
  BufferPool own;
  std::map<Ticket, const std::byte*> given;  // touched on the loop, then by us
  std::map<Ticket, const std::byte*> got;
  {
    const Pair pair = arena.Connect(/*start=*/false);
    pair.server.hooks.admit = [&](Ticket ticket, MessageSizes sizes) {
      Admission admission;
      if (ticket % 4 == 0) return admission;
      // More room than asked for is fine, and the view does not matter.
      admission.attachment = own.Allocate(static_cast<size_t>(sizes.attachment) + 1000).value();
      given[ticket] = admission.attachment.slot()->base;
      admission.attachment.SetView(500, 1);
      return admission;
    };
    pair.server.hooks.message = [&](Ticket ticket, Message& message) {
      if (given.contains(ticket)) got[ticket] = message.attachment.data();
    };
    pair.client.Start();
    pair.server.Start();
    size_t sent = 0;
    for (size_t attachment : {size_t{1}, 4 * KiB, 64 * KiB, 64 * KiB + 1, 3 * MiB + 1}) {
      for (size_t body : {kAbsent, size_t{63}, 5 * KiB, 300 * KiB}) {
        pair.client.Send({.body = body, .attachment = attachment});
        ++sent;
      }
    }
    CHECK(arena.RunUntil([&] { return pair.server.received() == sent; }));
  }
  CHECK(got.size() == 15);
  CHECK(got == given);
  CHECK(own.stats().leased_bytes == 0);
}

void AnUnusedBufferOfAdmitComesBack(Arena& arena) {
  BufferPool own;
  const Pair pair = arena.Connect(/*start=*/false);
  pair.server.hooks.admit = [&](Ticket ticket, MessageSizes) {
    Admission admission;
    admission.attachment = own.Allocate(1 * MiB).value();
    if (ticket == 1) admission.refused = absl::ResourceExhaustedError("not this one");
    return admission;
  };
  pair.client.Start();
  pair.server.Start();
  pair.client.Send({.body = 10, .attachment = 1 * MiB});  // refused
  pair.client.Send({.body = 10});                         // has none
  CHECK(arena.RunUntil([&] { return pair.server.received() == 1; }));
  const Sent huge = pair.client.Send({.body = kHuge, .attachment = 100});  // broken off
  CHECK(arena.RunUntil([&] { return pair.server.TicketOf(huge.number) != 0; }));
  pair.server.Destroy();
  pair.client.Destroy();
  CHECK(arena.RunUntil([&] { return own.stats().leased_bytes == 0; }));
}

void ReceivedMessagesMayBeHeld(Arena& arena) {
  std::vector<Message> held;  // touched on the loop, then by us
  const Pair pair = arena.Connect(/*start=*/false);
  pair.server.hooks.message = [&](Ticket, Message& message) { held.push_back(std::move(message)); };
  pair.client.Start();
  pair.server.Start();
  constexpr size_t kMessages = 600;
  for (size_t i = 0; i < kMessages; ++i) pair.client.Send({.body = i * 101, .attachment = i});
  REQUIRE(arena.RunUntil([&] { return pair.server.received() == kMessages; }));
  for (const Message& message : held) CHECK(WhatIsWrong(message) == "");
}

// ---- Abandon ----

void AbandonedOnItsWay(Arena& arena) {
  const Pair pair = arena.Connect();
  for (const Parts parts : {Parts{.body = kHuge}, Parts{.body = 10, .attachment = kHuge}}) {
    const Sent sent = pair.client.Send(parts);
    REQUIRE(arena.RunUntil([&] { return pair.server.TicketOf(sent.number) != 0; }));
    const Ticket ticket = pair.server.TicketOf(sent.number);
    pair.server.Abandon(ticket, absl::DeadlineExceededError("too late for this one"));
    pair.server.Abandon(ticket, absl::InternalError("twice"));
    CHECK(arena.RunUntil([&] {
      return pair.server.Received(sent.number) || pair.server.Abandoned(sent.number).has_value();
    }));
    if (arena.layout() != Layout::kThreads) CHECK(!pair.server.Received(sent.number));
    if (!pair.server.Received(sent.number)) {
      CHECK(pair.server.Abandoned(sent.number) ==
            absl::DeadlineExceededError("too late for this one"));
    }
    CHECK(arena.RunUntil([&] { return pair.client.outcome(sent).has_value(); }));
    CHECK(pair.client.outcome(sent)->sent);
    arena.ExpectAlive(pair);
  }
}

void AbandonOfWhatIsNotThere(Arena& arena) {
  const Pair pair = arena.Connect();
  const Sent sent = pair.client.Send({.body = 300 * KiB});
  CHECK(arena.RunUntil([&] { return pair.server.Received(sent.number); }));
  for (Ticket ticket : {Ticket{0}, Ticket{1}, Ticket{2}, ~Ticket{0}}) {
    pair.server.Abandon(ticket, absl::CancelledError("nothing to cancel"));
    pair.client.Abandon(ticket, absl::CancelledError("nothing to cancel"));
  }
  arena.RunFor(kQuiet);
  CHECK(!pair.server.Abandoned(sent.number).has_value());
  arena.ExpectAlive(pair);
}

void AbandonFromACallback(Arena& arena) {
  const Pair pair = arena.Connect(/*start=*/false);
  // A turn after the head came: too soon for the payload, whoever is how fast.
  pair.server.hooks.admit = [&](Ticket ticket, MessageSizes) {
    if (ticket == 1) pair.server.Send({.body = 10});
    return Admission{};
  };
  pair.server.hooks.done = [&](Ticket, SendResult&) {
    pair.server.Abandon(1, absl::CancelledError("no more of this"));
  };
  pair.server.hooks.message = [&](Ticket ticket, Message&) {
    pair.server.Abandon(ticket, absl::CancelledError("it is whole: too late"));
  };
  pair.client.Start();
  pair.server.Start();
  const Sent large = pair.client.Send({.body = kHuge});
  pair.client.Send({.body = 10});
  CHECK(arena.RunUntil([&] { return pair.server.Abandoned(large.number).has_value(); }));
  CHECK(arena.RunUntil([&] { return pair.server.received() == 1; }));
  pair.server.Do([&] { pair.server.hooks = {}; });
  arena.ExpectAlive(pair);
}

constexpr Case kCases[] = {
    {"nothing is delivered before Start", NothingBeforeStart},
    {"Admit refuses small and large, the connection goes on", AdmitRefuses},
    {"Admit gives a buffer for the attachment", AdmitGivesABufferForTheAttachment},
    {"an unused buffer of Admit comes back", AnUnusedBufferOfAdmitComesBack},
    {"received messages may be held", ReceivedMessagesMayBeHeld},
    {"abandoned on its way, the connection goes on", AbandonedOnItsWay},
    {"Abandon of what is not there", AbandonOfWhatIsNotThere},
    {"Abandon from a callback", AbandonFromACallback},
};

}  // namespace

std::span<const Case> ReceivingCases() { return kCases; }

}  // namespace farcall::testing
