// What a server's OFFER says, as bytes and back: where a path is and the token that it takes, or
// why there is none.
//
//   offset  size
//   0       1     version, 1
//   1       1     1: an address; 2: a reason
//   2       16    the token, with an address
//   …             the text of the address or the reason, 1 to 512 bytes, to the end

#ifndef FARCALL_TRANSPORTS_AUTO_OFFER_H_
#define FARCALL_TRANSPORTS_AUTO_OFFER_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "farcall/rpc/endpoint.h"

namespace farcall::paths {

inline constexpr size_t kTokenBytes = 16;
inline constexpr size_t kMaxTextBytes = 512;

struct Offer {
  std::string reason = {};  // why there is no such path; empty: there is
  Endpoint endpoint = {};
  std::string token = {};  // kTokenBytes
};

// A reason that is too long is cut.
std::string EncodeOffer(const Offer& offer);

// Takes hostile bytes. INVALID_ARGUMENT names what is wrong.
absl::StatusOr<Offer> DecodeOffer(std::string_view bytes);

}  // namespace farcall::paths

#endif  // FARCALL_TRANSPORTS_AUTO_OFFER_H_
