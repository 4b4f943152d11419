// The peer UCX: active messages of UCP over shared memory or TCP. Both sides spin on
// ucp_worker_progress; bodies lie in memory that UCX allocated, and so can be read by the other
// process; UCX chooses between eager and rendezvous.
#include <ucp/api/ucp.h>

#include <chrono>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "farcall/bench/measure/clock.h"
#include "farcall/bench/peers/peer.h"

namespace farcall::bench {
namespace {

constexpr unsigned kMessage = 0;  // the one active message there is
// The slowest step, a 16 MiB body behind seven others, takes some 100 ms on a slow machine.
constexpr uint64_t kPatienceNs = 5'000'000'000;
// Reading the clock costs as much as a few looks at all transports.
constexpr int kLooksPerClockRead = 4096;

struct Variant {
  std::string_view name;
  const char* transports;  // UCX_TLS
  const char* devices;     // UCX_NET_DEVICES
};
// 'sm', all of shared memory, would have large bodies by CMA, which takes 1.5 to 2 times as long as
// a body that is read where UCX put it.
constexpr Variant kVariants[] = {{"shm", "posix", "all"}, {"tcp", "tcp", "lo"}};

absl::Status Failed(const char* what, ucs_status_t status) {
  return absl::UnavailableError(std::string("UCX: ") + what + ": " + ucs_status_string(status));
}

// A worker address as one word.
std::string ToHex(std::span<const uint8_t> bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (const uint8_t byte : bytes) hex += {kDigits[byte >> 4], kDigits[byte & 15]};
  return hex;
}

std::vector<uint8_t> FromHex(std::string_view hex) {
  std::vector<uint8_t> bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes.push_back(static_cast<uint8_t>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16)));
  }
  return bytes;
}

// A process's end: its worker, its memory, and the messages that come and go. One thread.
class End {
 public:
  // Memory that UCX allocated.
  struct Body {
    uint8_t* data = nullptr;
    ucp_mem_h memory = nullptr;
  };
  // Told of each message, from Progress; `from` takes the reply. The body may be kept by
  // KeepAsBody.
  using OnMessage = std::function<void(std::span<const uint8_t> body, ucp_ep_h from)>;

  explicit End(const Variant& variant) : variant_(variant) {}
  End(const End&) = delete;
  End& operator=(const End&) = delete;
  ~End() {
    if (worker_ != nullptr) ucp_worker_destroy(worker_);
    for (const Body& body : all_) ucp_mem_unmap(context_, body.memory);
    if (context_ != nullptr) ucp_cleanup(context_);
  }

  // `body_bytes`: of the largest message that comes or goes.
  absl::Status Open(size_t body_bytes, OnMessage on_message) {
    body_bytes_ = body_bytes;
    on_message_ = std::move(on_message);
    ucp_config_t* config = nullptr;
    ucs_status_t status = ucp_config_read(nullptr, nullptr, &config);
    if (status != UCS_OK) return Failed("ucp_config_read", status);
    status = ucp_config_modify(config, "TLS", variant_.transports);
    if (status == UCS_OK) status = ucp_config_modify(config, "NET_DEVICES", variant_.devices);
    ucp_params_t params{};
    params.field_mask = UCP_PARAM_FIELD_FEATURES;
    params.features = UCP_FEATURE_AM;
    if (status == UCS_OK) status = ucp_init(&params, config, &context_);
    ucp_config_release(config);
    if (status != UCS_OK) return Failed("ucp_init", status);
    ucp_worker_params_t worker{};
    worker.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
    worker.thread_mode = UCS_THREAD_MODE_SINGLE;
    status = ucp_worker_create(context_, &worker, &worker_);
    if (status != UCS_OK) return Failed("ucp_worker_create", status);
    ucp_am_handler_param_t handler{};
    handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
                         UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
    handler.id = kMessage;
    handler.flags = UCP_AM_FLAG_WHOLE_MSG;
    handler.cb = &End::OnActiveMessage;
    handler.arg = this;
    status = ucp_worker_set_am_recv_handler(worker_, &handler);
    return status == UCS_OK ? absl::OkStatus() : Failed("ucp_worker_set_am_recv_handler", status);
  }

  absl::StatusOr<std::string> Address() const {
    ucp_address_t* address = nullptr;
    size_t bytes = 0;
    const ucs_status_t status = ucp_worker_get_address(worker_, &address, &bytes);
    if (status != UCS_OK) return Failed("ucp_worker_get_address", status);
    std::string hex = ToHex({reinterpret_cast<const uint8_t*>(address), bytes});
    ucp_worker_release_address(worker_, address);
    return hex;
  }

  absl::StatusOr<ucp_ep_h> Connect(std::string_view address) {
    const std::vector<uint8_t> bytes = FromHex(address);
    ucp_ep_params_t params{};
    params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
    params.address = reinterpret_cast<const ucp_address_t*>(bytes.data());
    ucp_ep_h endpoint = nullptr;
    const ucs_status_t status = ucp_ep_create(worker_, &params, &endpoint);
    if (status != UCS_OK) return Failed("ucp_ep_create", status);
    return endpoint;
  }

  // One that is free, or a new one.
  Body TakeBody() {
    if (free_.empty()) Allocate();
    if (free_.empty()) return {};
    const Body body = free_.back();
    free_.pop_back();
    return body;
  }
  void GiveBack(Body body) { free_.push_back(body); }

  // The body is the message's until it is sent, and free then if `once`.
  void Send(ucp_ep_h to, Body body, size_t bytes, bool once) {
    auto* const sending = once ? new Sending{this, body} : nullptr;
    ucp_request_param_t params{};
    params.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_CALLBACK |
                          UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_MEMH;
    params.flags = UCP_AM_SEND_FLAG_REPLY;
    params.cb.send = &End::OnSent;
    params.user_data = sending;
    params.memh = body.memory;
    void* const request = ucp_am_send_nbx(to, kMessage, nullptr, 0, body.data, bytes, &params);
    if (UCS_PTR_IS_ERR(request)) Fail("ucp_am_send_nbx", UCS_PTR_STATUS(request));
    if (!UCS_PTR_IS_PTR(request) && once) Sent(sending);
  }

  // What a message that came holds, as a body of its own.
  Body KeepAsBody(std::span<const uint8_t> message) {
    if (arrived_.data == message.data()) return std::exchange(arrived_, {});
    const Body body = TakeBody();
    if (body.data != nullptr) std::memcpy(body.data, message.data(), message.size());
    return body;
  }

  // Does what there is to do. False: there was nothing.
  bool Progress() { return ucp_worker_progress(worker_) != 0; }
  const absl::Status& status() const { return status_; }

  // Until nothing that was sent is on its way.
  void Disconnect(ucp_ep_h endpoint) {
    ucp_request_param_t params{};
    void* const request = ucp_ep_close_nbx(endpoint, &params);
    if (!UCS_PTR_IS_PTR(request)) return;
    const uint64_t give_up_ns = NowNs() + kPatienceNs;
    while (ucp_request_check_status(request) == UCS_INPROGRESS && NowNs() < give_up_ns) Progress();
    ucp_request_free(request);
  }

 private:
  struct Sending {
    End* end;
    Body body;
  };
  struct Receiving {
    End* end;
    Body body;
    size_t bytes;
    ucp_ep_h from;
  };

  void Allocate() {
    ucp_mem_map_params_t params{};
    params.field_mask = UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_FLAGS;
    params.length = body_bytes_;
    params.flags = UCP_MEM_MAP_ALLOCATE;
    Body body;
    ucs_status_t status = ucp_mem_map(context_, &params, &body.memory);
    if (status != UCS_OK) return Fail("ucp_mem_map", status);
    ucp_mem_attr_t attributes{};
    attributes.field_mask = UCP_MEM_ATTR_FIELD_ADDRESS;
    status = ucp_mem_query(body.memory, &attributes);
    if (status != UCS_OK) return Fail("ucp_mem_query", status);
    body.data = static_cast<uint8_t*>(attributes.address);
    std::memset(body.data, 0, body_bytes_);
    all_.push_back(body);
    free_.push_back(body);
  }

  void Fail(const char* what, ucs_status_t status) {
    if (status_.ok()) status_ = Failed(what, status);
  }

  void Sent(Sending* sending) {
    free_.push_back(sending->body);
    delete sending;
  }
  static void OnSent(void* request, ucs_status_t status, void* user_data) {
    auto* const sending = static_cast<Sending*>(user_data);
    if (sending != nullptr) {
      if (status != UCS_OK) sending->end->Fail("sending", status);
      sending->end->Sent(sending);
    }
    ucp_request_free(request);
  }

  static ucs_status_t OnActiveMessage(void* end, const void* /*header*/, size_t /*header_bytes*/,
                                      void* data, size_t bytes, const ucp_am_recv_param_t* param) {
    auto& self = *static_cast<End*>(end);
    if ((param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0) {
      self.Receive(data, bytes, param->reply_ep);
    } else {
      self.on_message_({static_cast<const uint8_t*>(data), bytes}, param->reply_ep);
    }
    return UCS_OK;
  }

  void Receive(void* data, size_t bytes, ucp_ep_h from) {
    auto* const receiving = new Receiving{this, TakeBody(), bytes, from};
    if (receiving->body.data == nullptr || bytes > body_bytes_) {
      return Fail("a message without room", UCS_ERR_NO_MEMORY);
    }
    ucp_request_param_t params{};
    params.op_attr_mask =
        UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_MEMH;
    params.cb.recv_am = &End::OnReceived;
    params.user_data = receiving;
    params.memh = receiving->body.memory;
    void* const request = ucp_am_recv_data_nbx(worker_, data, receiving->body.data, bytes, &params);
    if (UCS_PTR_IS_ERR(request)) return Fail("ucp_am_recv_data_nbx", UCS_PTR_STATUS(request));
    if (request == nullptr) Received(receiving);
  }
  static void OnReceived(void* request, ucs_status_t status, size_t /*bytes*/, void* user_data) {
    auto* const receiving = static_cast<Receiving*>(user_data);
    if (status != UCS_OK) receiving->end->Fail("receiving", status);
    ucp_request_free(request);
    receiving->end->Received(receiving);
  }
  void Received(Receiving* receiving) {
    const std::unique_ptr<Receiving> owned(receiving);
    arrived_ = owned->body;
    on_message_({owned->body.data, owned->bytes}, owned->from);
    if (arrived_.data != nullptr) free_.push_back(std::exchange(arrived_, {}));
  }

  const Variant& variant_;
  size_t body_bytes_ = 0;
  OnMessage on_message_;
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  std::vector<Body> all_, free_;
  Body arrived_;  // of the message that is told of
  absl::Status status_;
};

class Ucx final : public Peer {
 public:
  explicit Ucx(const Variant& variant) : variant_(variant) {}

  std::string About() const override {
    return std::string("UCX ") + ucp_get_version_string() +
           ", active messages, UCX_TLS=" + variant_.transports +
           ", memory by ucp_mem_map, both sides spin";
  }

  absl::Status Serve(const PeerSizes& sizes,
                     const std::function<void(const std::string&)>& listening) override {
    End end(variant_);
    const PeerAnswers answers(sizes);
    absl::Status status;
    absl::Status opened = end.Open(
        std::max(sizes.request_bytes, sizes.reply_bytes),
        [&](std::span<const uint8_t> request, ucp_ep_h client) {
          if (sizes.echo) {
            return end.Send(client, end.KeepAsBody(request), request.size(), /*once=*/true);
          }
          const End::Body reply = end.TakeBody();
          if (reply.data == nullptr) return;
          status.Update(answers.Write(request, {reply.data, sizes.reply_bytes}));
          end.Send(client, reply, sizes.reply_bytes, /*once=*/true);
        });
    if (!opened.ok()) return opened;
    const absl::StatusOr<std::string> address = end.Address();
    if (!address.ok()) return address.status();
    listening(*address);
    while (status.ok() && end.status().ok()) end.Progress();
    return status.ok() ? end.status() : status;
  }

  absl::Status Call(const std::string& address, PeerCalls& calls) override {
    const PeerSizes& sizes = calls.sizes();
    End end(variant_);
    std::vector<End::Body> requests;
    ucp_ep_h server = nullptr;
    size_t under_way = sizes.outstanding;
    absl::Status status;
    const auto begin = [&](size_t slot) {
      calls.Begin(slot, {requests[slot].data, sizes.request_bytes});
      end.Send(server, requests[slot], sizes.request_bytes, /*once=*/false);
    };
    absl::Status opened = end.Open(std::max(sizes.request_bytes, sizes.reply_bytes),
                                   [&](std::span<const uint8_t> reply, ucp_ep_h /*from*/) {
                                     const absl::StatusOr<size_t> slot = calls.SlotOf(reply);
                                     if (!slot.ok()) return status.Update(slot.status());
                                     if (calls.End(*slot, reply)) return begin(*slot);
                                     --under_way;
                                   });
    if (!opened.ok()) return opened;
    absl::StatusOr<ucp_ep_h> connected = end.Connect(address);
    if (!connected.ok()) return connected.status();
    server = *connected;
    for (size_t slot = 0; slot < sizes.outstanding; ++slot) requests.push_back(end.TakeBody());
    if (!end.status().ok()) return end.status();
    for (size_t slot = 0; slot < sizes.outstanding; ++slot) begin(slot);
    uint64_t give_up_ns = NowNs() + kPatienceNs;
    for (int looks = 0; under_way > 0 && status.ok() && end.status().ok();) {
      if (end.Progress()) {
        looks = 0;
        give_up_ns = 0;
      } else if (++looks % kLooksPerClockRead == 0) {
        const uint64_t now_ns = NowNs();
        if (give_up_ns == 0) give_up_ns = now_ns + kPatienceNs;
        if (now_ns > give_up_ns) return absl::DeadlineExceededError("the server is silent");
      }
    }
    end.Disconnect(server);
    return status.ok() ? end.status() : status;
  }

 private:
  const Variant& variant_;
};

}  // namespace

std::unique_ptr<Peer> MakePeer(std::string_view name) {
  for (const Variant& variant : kVariants) {
    if (variant.name == name) return std::make_unique<Ucx>(variant);
  }
  return nullptr;
}

}  // namespace farcall::bench
