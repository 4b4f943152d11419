#include "farcall/transports/rdma/delivery_order.h"

#include <catch2/catch.hpp>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "farcall/rpc/buffer_pool.h"

namespace farcall::rdma {
namespace {

class Order {
 public:
  explicit Order(uint64_t max_held_bytes = 1 << 20) : order_(max_held_bytes) {}

  // A message whose body is of as many bytes as its ticket says.
  Message Make(Ticket ticket) {
    Message message;
    message.body = *pool_.Allocate(ticket);
    return message;
  }
  bool Add(Ticket ticket) {
    Message message = Make(ticket);
    return order_.Add(ticket, message);
  }
  void Arrived(Ticket ticket) { order_.Arrived(ticket, Make(ticket)); }

  std::vector<Ticket> Deliver() {
    std::vector<Ticket> delivered;
    Ticket ticket = 0;
    Message message;
    while (order_.Next(ticket, message)) {
      CHECK(message.body.size() == ticket);
      delivered.push_back(ticket);
    }
    return delivered;
  }

  DeliveryOrder& operator*() { return order_; }
  DeliveryOrder* operator->() { return &order_; }
  size_t leased() const { return pool_.stats().leased_bytes; }

 private:
  BufferPool pool_;
  DeliveryOrder order_;
};

using Tickets = std::vector<Ticket>;

TEST_CASE("what is here waits for what is read before it") {
  Order order;
  CHECK(order->idle());
  order->Expect(1);
  CHECK_FALSE(order->idle());
  CHECK(order.Add(2));
  order->Expect(4);  // 3 is large
  CHECK(order.Add(5));
  CHECK(order.Deliver() == Tickets{});
  order.Arrived(4);
  CHECK(order.Deliver() == Tickets{});
  order.Arrived(1);
  CHECK(order.Deliver() == Tickets{1, 2, 4, 5});
  CHECK(order->idle());
  CHECK(order->held_bytes() == 0);
  CHECK(order.leased() == 0);
}

TEST_CASE("who gives up holds nobody up") {
  Order order;
  order->Expect(1);
  CHECK(order.Add(2));
  CHECK(order.Add(3));
  order->Expect(4);
  CHECK(order.Add(5));
  CHECK(order->GiveUp(3));
  CHECK_FALSE(order->GiveUp(3));
  CHECK_FALSE(order->GiveUp(7));
  CHECK(order->GiveUp(1));
  CHECK(order.Deliver() == Tickets{2});
  CHECK_FALSE(order->GiveUp(2));
  CHECK(order->GiveUp(4));
  CHECK(order.Deliver() == Tickets{5});
  CHECK(order->idle());
  CHECK(order->held_bytes() == 0);
}

TEST_CASE("what waits is bounded, heads alone too") {
  Order order(10'000);
  order->Expect(1);
  Ticket ticket = 1;
  Message empty;
  while (order->Add(++ticket, empty)) REQUIRE(ticket < 1000);
  CHECK(ticket > 10);
  CHECK(order->held_bytes() <= 10'000);
  Message refused = order.Make(500);
  CHECK_FALSE(order->Add(ticket, refused));
  CHECK(refused.body.size() == 500);
}

TEST_CASE("in whatever order they arrive or are given up, the others come in order") {
  for (uint32_t seed = 1; seed <= 500; ++seed) {
    INFO("seed=" << seed);
    std::mt19937 generator(seed);
    const auto dice = [&generator](uint32_t sides) {
      return static_cast<uint32_t>(generator()) % sides;
    };
    Order order;
    std::set<Ticket> living, expected;
    Ticket last = 0, delivered = 0;
    for (int step = 0; step < 200 || !expected.empty(); ++step) {
      const uint32_t what = dice(4);
      if (what == 0 && step < 200) {
        order->Expect(++last);
        living.insert(last);
        expected.insert(last);
      } else if (what == 1 && step < 200) {
        REQUIRE(order.Add(++last));
        living.insert(last);
      } else if (what == 2 && !expected.empty()) {
        auto at = expected.lower_bound(1 + dice(static_cast<uint32_t>(last)));
        if (at == expected.end()) at = expected.begin();
        order.Arrived(*at);
        expected.erase(at);
      } else if (what == 3) {
        const Ticket ticket = 1 + dice(static_cast<uint32_t>(last + 1));
        REQUIRE(order->GiveUp(ticket) == (living.erase(ticket) == 1));
        expected.erase(ticket);
      }
      for (const Ticket ticket : order.Deliver()) {
        REQUIRE(ticket > delivered);
        REQUIRE(living.erase(ticket) == 1);
        REQUIRE((expected.empty() || ticket < *expected.begin()));
        delivered = ticket;
      }
      // Nobody waits for nobody.
      REQUIRE((living.empty() || (!expected.empty() && *expected.begin() == *living.begin())));
    }
    REQUIRE(order->idle());
    REQUIRE(order->held_bytes() == 0);
  }
}

}  // namespace
}  // namespace farcall::rdma
