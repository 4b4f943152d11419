// The Shelf service of tour.fbs: one handler in each of the three forms that rpc/service.h names.

#ifndef FARCALL_SERVICES_TOUR_SHELF_H_
#define FARCALL_SERVICES_TOUR_SHELF_H_

#include <boost/asio/awaitable.hpp>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "farcall/rpc/mutex.h"
#include "tour.rpc.h"

namespace farcall::services {

// Thread-safe: a server with several loops runs handlers on all of them at once.
class ShelfImpl {
 public:
  // Plain functions, inline on the loop: the request is read where it arrived.
  absl::Status Put(Context& context, const PutRequest& request, Reply<PutReply>& reply);
  absl::Status Get(Context& context, const GetRequest& request, Reply<GetReply>& reply);
  // flatc's object API: copied into and out of plain structs.
  absl::Status List(Context& context, const ListRequestT& request, ListReplyT& reply);
  // A coroutine: it may wait without holding the loop.
  asio::awaitable<absl::Status> Wait(Context& context, Msg<WaitRequest> request,
                                     Reply<WaitReply>& reply);

 private:
  bool Has(const std::string& name) const;
  std::string Names() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable Mutex mutex_;
  std::map<std::string, std::string> things_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace farcall::services

#endif  // FARCALL_SERVICES_TOUR_SHELF_H_
