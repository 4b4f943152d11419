// Stream: one connected socket that moves messages; what stands behind a TcpConnection. It is
// shared with the handlers that wait for the socket, and so outlives the connection until they ran.
//
// stream.cc: life, from the first byte to the last; stream_read.cc, stream_write.cc: the socket's
// two directions. What goes to the wire is decided by SendQueue, what came is put together by
// Assembler.
//
// Everything runs on the driver of the loop.

#ifndef FARCALL_TRANSPORTS_TCP_STREAM_H_
#define FARCALL_TRANSPORTS_TCP_STREAM_H_

#include <boost/asio/basic_stream_socket.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "farcall/rpc/asio.h"
#include "farcall/rpc/buffer_pool.h"
#include "farcall/rpc/event_loop.h"
#include "farcall/rpc/timer_wheel.h"
#include "farcall/rpc/transport.h"
#include "farcall/transports/tcp/assembler.h"
#include "farcall/transports/tcp/handler.h"
#include "farcall/transports/tcp/loop_share.h"
#include "farcall/transports/tcp/send_queue.h"

namespace farcall::tcp {

// The executor is io_context's own: a type-erased one costs an allocation for each wait.
using Socket =
    asio::basic_stream_socket<asio::generic::stream_protocol, asio::io_context::executor_type>;

// The memory of a transport, shared by all its connections.
struct Pools {
  std::shared_ptr<BufferPool> send;
  std::shared_ptr<BufferPool> receive;
};

struct StreamOptions {
  std::string transport;  // "tcp", "unix"
  std::string peer;       // as ConnectionInfo has it
  std::string local;
  Pools pools;
  TransportLimits limits;
  Duration handshake_timeout{};
};

class Stream final : public std::enable_shared_from_this<Stream>,
                     private AssemblerEvents,
                     private Poller {
 public:
  // `socket` is connected, nonblocking, and on the loop's io().
  Stream(EventLoop& loop, Socket socket, StreamOptions options);
  ~Stream() override;

  // ---- the contract's Connection ----
  void Start(Receiver& receiver);
  Ticket Send(Message&& message, SendDone&& done);
  void Withdraw(Ticket ticket);
  void Abandon(Ticket ticket, absl::Status status);
  void Close(absl::Status status);
  ConnectionInfo info() const;
  const std::shared_ptr<BufferPool>& pool() const { return options_.pools.send; }
  // The connection is destroyed: no callback any more.
  void Detach();

  // Sends the preamble in this turn; once, after construction.
  void Greet() { end_of_turn_.RunAtEndOfTurnOf(loop_); }

 private:
  struct Abandoned {
    Ticket ticket;
    absl::Status status;
  };
  class Alarm final : public Timer {
   public:
    using Method = void (Stream::*)();
    Alarm(Stream& stream, Method method) : stream_(stream), method_(method) {}
    void OnTimer() override { (stream_.*method_)(); }

   private:
    Stream& stream_;
    const Method method_;
  };

  // ---- life (stream.cc) ----
  void OnEndOfTurn();
  void OnResume();
  void TellAbandoned();
  void RunDones();
  void Shut(absl::Status status);
  void OnPeerGone(absl::Status status);
  void OnHandshakeTimeout();
  absl::Status Named(absl::Status status) const;
  void Linger();
  void DrainLinger();
  void OnLingerOver() { CloseSocket(); }
  void CloseSocket();

  // ---- receiving (stream_read.cc) ----
  enum class ReadEnd : uint8_t { kDrained, kMore, kClosed };
  ReadEnd ReadTurn(size_t& bytes);
  void AfterRead(ReadEnd end);
  ssize_t ReceiveOnce(Assembler::Regions& regions);
  absl::Status TakeIn(size_t bytes);
  void OnReadable(const boost::system::error_code& error);
  void OnReadTurn();
  void WaitReadable();
  void OnReadFailed(ssize_t result, int error);
  void OnViolation(const absl::Status& rule);
  void GetHot();
  void GetCold();
  size_t Poll() override;
  bool Arm() override;

  Admission Admit(Ticket ticket, std::span<const std::byte> head, MessageSizes sizes) override;
  void OnMessage(Ticket ticket, Message&& message) override;
  void OnAbandoned(Ticket ticket, absl::Status status) override;
  void SendAbandon(uint32_t transfer) override;
  void DropAbandon(uint32_t transfer) override;
  absl::Status OnPeerAbandon(uint32_t transfer) override;

  // ---- sending (stream_write.cc) ----
  void Flush();
  ssize_t SendOnce(const SendBatch& batch);
  void OnWritable(const boost::system::error_code& error);
  void WaitWritable();
  void OnWriteFailed(int error);

  // Constant after construction.
  EventLoop& loop_;
  LoopShare& share_;
  const StreamOptions options_;

  Socket socket_;
  Receiver* receiver_ = nullptr;
  SendQueue queue_;
  Assembler assembler_;
  ConnectionTallies counters_;  // those that the queue and the assembler do not count

  bool shut_ = false;  // no message moves any more; close_status_ says why
  absl::Status close_status_;
  bool peer_gone_ = false;   // end of stream or an error was seen: no use to linger
  absl::Status send_error_;  // the kernel takes nothing more; what came before is still read
  std::vector<Abandoned> abandoned_;  // OnAbandoned follows

  bool read_waits_ = false;   // a wait for readability is out
  bool write_waits_ = false;  // a wait for writability is out
  bool rearm_ = false;        // at the end of the turn, after what is sent
  bool read_more_ = false;    // the turn's share was used up
  bool write_more_ = false;   // likewise
  size_t unflushed_ = 0;      // messages queued since the last flush
  bool hot_ = false;          // a poller of the loop
  TimePoint last_hot_{};      // when something was last received while hot
  uint32_t empty_polls_ = 0;  // since then

  HandlerMemory read_memory_;
  HandlerMemory write_memory_;
  OwnedTask<Stream> read_{*this, &Stream::OnReadTurn};
  OwnedTask<Stream> end_of_turn_{*this, &Stream::OnEndOfTurn};
  OwnedTask<Stream> resume_{*this, &Stream::OnResume};
  Alarm handshake_{*this, &Stream::OnHandshakeTimeout};
  Alarm linger_{*this, &Stream::OnLingerOver};
};

}  // namespace farcall::tcp

#endif  // FARCALL_TRANSPORTS_TCP_STREAM_H_
