#include "farcall/rpc/channel.h"

#include <utility>

#include "farcall/rpc/channel_core.h"

namespace farcall {
namespace {

EventLoopOptions OwnLoop(const ChannelOptions& options) {
  return {.mode = options.mode, .name = "fc-channel"};
}

}  // namespace

Channel::Channel(std::shared_ptr<Transport> transport, Endpoint endpoint, ChannelOptions options) {
  if (!options.loop) options.loop = std::make_shared<EventLoop>(OwnLoop(options));
  auto core =
      std::make_shared<ChannelCore>(std::move(transport), std::move(endpoint), std::move(options));
  core->loop().Post([core] { core->Connect(); });
  // Handles share an owner of their own: the core lives on until its last call and connection are
  // done.
  core_ = std::shared_ptr<ChannelCore>(core.get(), [core](ChannelCore* /*same*/) mutable {
    // Kept until Post has returned: the loop may run the rest, and drop the core, before that.
    const std::shared_ptr<EventLoop> loop = core->shared_loop();
    loop->Post([last = std::move(core)] { last->Shutdown(); });
  });
}

absl::StatusOr<Channel> Channel::Create(std::shared_ptr<Transport> transport, Endpoint endpoint,
                                        ChannelOptions options) {
  if (!options.loop) {
    absl::StatusOr<std::shared_ptr<EventLoop>> loop = EventLoop::Create(OwnLoop(options));
    if (!loop.ok()) return loop.status();
    options.loop = *std::move(loop);
  }
  return Channel(std::move(transport), std::move(endpoint), std::move(options));
}

EventLoop& Channel::loop() const { return core_->loop(); }
const ChannelOptions& Channel::options() const { return core_->options(); }
std::shared_ptr<BufferPool> Channel::pool() const { return core_->pool(); }

ChannelMetrics Channel::metrics() const { return core_->Metrics(); }

ChannelInfo Channel::info() const {
  if (loop().IsDriver()) return core_->Info();
  class Ask final : public BlockingTask {
   public:
    explicit Ask(ChannelCore& core) : core_(core) {}
    void Run() override {
      info = core_.Info();
      Finish();
    }
    ChannelInfo info;

   private:
    ChannelCore& core_;
  };
  Ask ask(*core_);
  loop().RunBlocking(ask).IgnoreError();  // it refuses drivers only
  return std::move(ask.info);
}

}  // namespace farcall
