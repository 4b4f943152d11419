// The peer Thrift: binary protocol over TCP, a server with a thread for each connection, and calls
// in flight on one connection by sending requests before the replies to the ones before are there.
#include <thrift/TConfiguration.h>
#include <thrift/protocol/TBinaryProtocol.h>
#include <thrift/server/TThreadedServer.h>
#include <thrift/thrift-config.h>
#include <thrift/transport/TBufferTransports.h>
#include <thrift/transport/TServerSocket.h>
#include <thrift/transport/TSocket.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "Echo.h"
#include "farcall/bench/peers/peer.h"

namespace farcall::bench {
namespace {

namespace protocol = apache::thrift::protocol;
namespace server = apache::thrift::server;
namespace transport = apache::thrift::transport;
using thrift_peer::EchoClient;
using thrift_peer::EchoIf;
using thrift_peer::EchoProcessor;

constexpr char kHost[] = "127.0.0.1";
// What a message may be, of the demo's and more.
constexpr int kMaxBytes = 256 << 20;
// Of each side's buffer; longer bodies pass it by.
constexpr uint32_t kBufferBytes = 64 << 10;
constexpr int kPatienceMs = 10'000;

std::shared_ptr<apache::thrift::TConfiguration> Limits() {
  return std::make_shared<apache::thrift::TConfiguration>(kMaxBytes, kMaxBytes);
}

std::span<uint8_t> BytesOf(std::string& data) {
  return {reinterpret_cast<uint8_t*>(data.data()), data.size()};
}
std::span<const uint8_t> BytesOf(const std::string& data) {
  return {reinterpret_cast<const uint8_t*>(data.data()), data.size()};
}

class EchoHandler final : public EchoIf {
 public:
  explicit EchoHandler(const PeerSizes& sizes) : sizes_(sizes), answers_(sizes) {}

  void call(std::string& reply, const std::string& request) override {
    if (sizes_.echo) {
      reply = request;
      return;
    }
    reply.resize(sizes_.reply_bytes);
    const absl::Status written = answers_.Write(BytesOf(request), BytesOf(reply));
    if (!written.ok()) throw apache::thrift::TException(written.ToString());
  }

 private:
  const PeerSizes sizes_;
  const PeerAnswers answers_;
};

// Says where the server listens.
class Listening final : public server::TServerEventHandler {
 public:
  Listening(const transport::TServerSocket& socket, std::function<void(const std::string&)> say)
      : socket_(socket), say_(std::move(say)) {}
  void preServe() override { say_(std::to_string(socket_.getPort())); }

 private:
  const transport::TServerSocket& socket_;
  const std::function<void(const std::string&)> say_;
};

class Thrift final : public Peer {
 public:
  std::string About() const override {
    return "Thrift " PACKAGE_VERSION
           ", binary protocol, threaded server, buffered transport, "
           "pipelined on one connection";
  }

  absl::Status Serve(const PeerSizes& sizes,
                     const std::function<void(const std::string&)>& listening) override {
    const auto socket = std::make_shared<transport::TServerSocket>(kHost, 0);
    server::TThreadedServer threaded(
        std::make_shared<EchoProcessor>(std::make_shared<EchoHandler>(sizes)), socket,
        std::make_shared<transport::TBufferedTransportFactory>(),
        std::make_shared<protocol::TBinaryProtocolFactory>());
    threaded.setServerEventHandler(std::make_shared<Listening>(*socket, listening));
    threaded.serve();
    return absl::OkStatus();
  }

  absl::Status Call(const std::string& address, PeerCalls& calls) override {
    const auto socket = std::make_shared<transport::TSocket>(kHost, std::stoi(address), Limits());
    socket->setRecvTimeout(kPatienceMs);
    socket->setSendTimeout(kPatienceMs);
    const auto buffered = std::make_shared<transport::TBufferedTransport>(socket, kBufferBytes);
    EchoClient echo(std::make_shared<protocol::TBinaryProtocol>(buffered));
    try {
      socket->open();
      CallInOrder(echo, calls);
    } catch (const apache::thrift::TException& failure) {
      return absl::UnavailableError(failure.what());
    }
    return absl::OkStatus();
  }

 private:
  // Replies come in the order of their requests.
  static void CallInOrder(EchoClient& echo, PeerCalls& calls) {
    const PeerSizes& sizes = calls.sizes();
    std::string request(sizes.request_bytes, '\0');
    std::string reply;
    const auto begin = [&](size_t slot) {
      calls.Begin(slot, BytesOf(request));
      echo.send_call(request);
    };
    for (size_t slot = 0; slot < sizes.outstanding; ++slot) begin(slot);
    for (size_t slot = 0, over = 0; over < sizes.outstanding;
         slot = (slot + 1) % sizes.outstanding) {
      echo.recv_call(reply);
      if (calls.End(slot, BytesOf(std::as_const(reply)))) {
        begin(slot);
      } else {
        ++over;
      }
    }
  }
};

}  // namespace

std::unique_ptr<Peer> MakePeer(std::string_view variant) {
  return variant == "threaded" ? std::make_unique<Thrift>() : nullptr;
}

}  // namespace farcall::bench
