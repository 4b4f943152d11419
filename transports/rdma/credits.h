// Credits: when a side may SEND so that the peer always has a receive posted for it. Pure; the
// rules are in wire_format.md, and tests/transports/rdma/credits_model_test.cc tries every state
// that two peers can get into with them.
//
// RNR, a SEND that finds no receive, is a bug here and not a way to slow a sender down: credits are
// given back as soon as a receive is posted again, whatever becomes of the message.
//
// Not thread-safe: it belongs to the connection's driver.

#ifndef FARCALL_TRANSPORTS_RDMA_CREDITS_H_
#define FARCALL_TRANSPORTS_RDMA_CREDITS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "farcall/transports/rdma/envelope.h"

namespace farcall::rdma {

class Credits {
 public:
  // What tests vary.
  struct Variation {
    bool keep_last = true;    // rule 2: the last credit is for a CREDIT
    uint32_t count_from = 0;  // of all counters, on both sides
  };

  // Depths as in the Parameters of both sides: kMinReceiveDepth to kMaxReceiveDepth.
  Credits(uint32_t own_depth, uint32_t peer_depth) : Credits(own_depth, peer_depth, Variation{}) {}
  Credits(uint32_t own_depth, uint32_t peer_depth, Variation variation);

  // ---- sending ----

  // A SEND of `kind` finds a receive. A CREDIT is only worth one when CreditDue().
  bool CanSend(Kind kind) const;
  // Takes a credit for a SEND and returns the reposts for its envelope. The SEND follows at once
  // and in this order, or the connection ends. Precondition: CanSend(its kind).
  uint32_t Send();
  // Enough was posted again that the peer does not know of: a CREDIT must go, unless another SEND
  // goes first. It may have to wait until CanSend.
  bool CreditDue() const;

  // ---- receiving ----

  // A SEND arrived, and post_recv returned for a buffer in the place of the one that it used. This
  // is one event on purpose: were the peer's reposts used before the receive is posted again and
  // counted, a SEND could leave without telling of it, and both sides could come to wait for ever,
  // at any depth.
  // INVALID_ARGUMENT: the peer sent more than it had credits for, or claims more reposts than there
  // were SENDs, or takes some back.
  absl::Status Received(Kind kind, uint32_t reposts);

  // Receives of the peer that are free as far as this side knows.
  uint32_t available() const { return peer_depth_ - (sent_ - peer_reposts_); }
  // Reposts that the peer was not told, and whether one of them had held more than a CREDIT.
  uint32_t untold() const { return reposted_ - told_; }
  bool untold_news() const { return untold_news_; }
  // SENDs of this side that the peer has posted receives again for. The memory of older ones is
  // free.
  uint32_t peer_reposts() const { return peer_reposts_; }

 private:
  const uint32_t own_depth_;
  const uint32_t peer_depth_;
  const bool keep_last_;

  // All modulo 2^32: only differences mean something.
  uint32_t sent_;
  uint32_t peer_reposts_;  // as the peer said last
  uint32_t reposted_;      // receives of this side, and so SENDs of the peer
  uint32_t told_;          // reposted_ as it was in the last envelope
  bool untold_news_ = false;
};

}  // namespace farcall::rdma

#endif  // FARCALL_TRANSPORTS_RDMA_CREDITS_H_
