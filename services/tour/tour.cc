// farcall_tour: each way to make a call, and each thing that travels with one, in a few lines.
//
// Starts a server of its own, calls it over TCP, and prints a line a stop.

#include <algorithm>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <future>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/cord.h"
#include "farcall/rpc/outcome.h"
#include "farcall/rpc/user_memory.h"
#include "farcall/services/tour/shelf.h"
#include "farcall/transports/dial.h"

namespace farcall::services {
namespace {

using std::chrono::milliseconds;

void Say(const char* stop, const std::string& what) {
  std::printf("%-14s %s\n", stop, what.c_str());
}

std::string CodeOf(const absl::Status& status) { return absl::StatusCodeToString(status.code()); }

Builder<PutRequest> Putting(Shelf::Client& shelf, std::string_view name) {
  Builder<PutRequest> request = shelf.NewPut();
  request.Finish(CreatePutRequest(request, request.CreateString(name)));
  return request;
}

// The thread that waits is the thread that reads the socket.
void Blocking(Shelf::Client& shelf) {
  Builder<PutRequest> request = shelf.NewPut();
  request.Finish(CreatePutRequest(request, request.CreateString("book")));
  absl::StatusOr<Msg<PutReply>> reply = shelf.Put(std::move(request));
  Say("blocking", CodeOf(reply.status()));
}

// flatc's structs in place of a builder: a copy more, and no attachment.
void ObjectApi(Shelf::Client& shelf) {
  PutRequestT request;
  request.name = "apple";
  Say("object API", CodeOf(shelf.Put(request).status()));
}

void Attachment(Shelf::Client& shelf) {
  Builder<PutRequest> request = Putting(shelf, "lamp");
  absl::StatusOr<Buffer> light = request.AllocateAttachment(1000);  // sent from where it is
  if (!light.ok()) return Say("attachment", light.status().ToString());
  std::fill(light->data(), light->data() + light->size(), std::byte{7});
  request.Attach(*std::move(light));
  auto put = shelf.Put(std::move(request));
  if (!put.ok()) return Say("attachment", put.status().ToString());

  GetRequestT wanted;
  wanted.name = "lamp";
  auto got = shelf.Get(wanted);  // (*got).attachment() is the memory it arrived in
  if (!got.ok()) return Say("attachment", got.status().ToString());
  Say("attachment", std::to_string((*put)->bytes()) + " bytes there, " +
                        std::to_string(got->attachment().size()) + " back");
}

// Memory of ours, registered once: what is sent leaves from it, what is answered arrives in it.
void OwnMemory(Shelf::Client& shelf) {
  std::vector<std::byte> frame(2000, std::byte{9});
  auto memory = UserMemory::Register(frame);
  if (!memory.ok()) return Say("own memory", memory.status().ToString());
  Builder<PutRequest> request = Putting(shelf, "lamp");
  request.Attach((*memory)->Slice(0, 1000).value());
  auto put = shelf.Put(std::move(request));

  GetRequestT wanted;
  wanted.name = "lamp";
  Buffer place = (*memory)->Slice(1000, 1000).value();
  auto got = shelf.Get(wanted, {.attachment_into = &place});
  if (!got.ok()) return Say("own memory", got.status().ToString());
  const bool in_place = got->attachment().data() == &frame[1000];
  Say("own memory", put.ok() && in_place ? "from it, and back into it" : "?");
}

void MetadataBothWays(Shelf::Client& shelf) {
  CallInfo info;
  auto reply = shelf.Put(Putting(shelf, "cup"), {.metadata = {{"owner", "ann"}}, .info = &info});
  if (!reply.ok()) return Say("metadata", CodeOf(reply.status()));
  Say("metadata", "kept-for " + std::string(info.reply_metadata.Find("kept-for").value_or("?")));
}

void Stages(Shelf::Client& shelf) {
  CallInfo info;
  info.record_stages = true;
  auto reply = shelf.Put(Putting(shelf, "cup"), {.info = &info});
  const Duration waited = info.stages.answered - info.stages.handed;
  Say("call info", reply.ok() && waited > Duration(0) ? "it knows how long the answer took" : "?");
}

// A status of the handler's arrives with its payloads; OutcomeOf says whether the call ran.
void ErrorPayload(Shelf::Client& shelf) {
  GetRequestT request;
  request.name = "moon";
  const absl::Status status = shelf.Get(request).status();
  const std::string names(status.GetPayload("shelf/names").value_or(absl::Cord("?")));
  const bool answered = OutcomeOf(status) == Outcome::kAnswered;
  Say("error payload", CodeOf(status) + (answered ? ", answered" : "") + "; there are " + names);
}

// Any Asio completion token will do: a function is called on the channel's loop. It must not block.
void Callback(Shelf::Client& shelf) {
  std::promise<std::string> done;
  shelf.AsyncList(ListRequestT(), [&](const absl::StatusOr<Msg<ListReply>>& reply) {
    done.set_value(reply.ok() ? std::to_string((*reply)->names()->size()) + " things" : "?");
  });
  Say("callback", done.get_future().get());
}

asio::awaitable<std::string> PutAndWait(Shelf::Client shelf, std::string name) {
  auto put = co_await shelf.AsyncPut(Putting(shelf, name), asio::use_awaitable);
  WaitRequestT request;
  request.name = name;
  auto wait =
      co_await shelf.AsyncWait(request, {.timeout = milliseconds(5000)}, asio::use_awaitable);
  co_return put.ok() && wait.ok() ? name + " is there" : wait.status().ToString();
}

// A coroutine runs where it was spawned: on the channel's loop, which costs no thread hop, or on an
// io_context of yours.
void Coroutines(Channel& channel, Shelf::Client& shelf) {
  auto on_loop =
      asio::co_spawn(channel.loop().executor(), PutAndWait(shelf, "pen"), asio::use_future);
  Say("co_await", on_loop.get() + ", by the channel's loop");

  asio::io_context mine;
  auto on_mine = asio::co_spawn(mine, PutAndWait(shelf, "ink"), asio::use_future);
  mine.run();
  Say("co_await", on_mine.get() + ", by an io_context of ours");
}

// Every call has a deadline; the server is told what is left of it, and its handler is cancelled.
void Deadline(Shelf::Client& shelf) {
  WaitRequestT request;
  request.name = "godot";
  auto reply = shelf.Wait(request, {.timeout = milliseconds(50)});
  Say("deadline", CodeOf(reply.status()));
}

// The signal is not thread-safe: it is emitted where the handler runs, here on the channel's loop.
void Cancellation(Channel& channel, Shelf::Client& shelf) {
  WaitRequestT request;
  request.name = "godot";
  asio::cancellation_signal cancel;
  std::promise<absl::Status> ended;
  shelf.AsyncWait(request, asio::bind_cancellation_slot(
                               cancel.slot(), [&](const absl::StatusOr<Msg<WaitReply>>& reply) {
                                 ended.set_value(reply.status());
                               }));
  channel.loop().Post([&] { cancel.emit(asio::cancellation_type::terminal); });
  Say("cancellation", CodeOf(ended.get_future().get()));
}

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "farcall_tour: %s\n", status.ToString().c_str());
  return 1;
}

int Main() {
  ShelfImpl impl;
  Server server;
  if (absl::Status added = server.Add(Shelf::Bind(impl)); !added.ok()) return Fail(added);
  absl::StatusOr<Endpoint> address = Listen(server, "tcp://127.0.0.1:0");
  if (!address.ok()) return Fail(address.status());
  absl::StatusOr<Channel> channel = Dial(address->ToString());
  if (!channel.ok()) return Fail(channel.status());

  Shelf::Client shelf(*channel);
  Blocking(shelf);
  ObjectApi(shelf);
  Attachment(shelf);
  OwnMemory(shelf);
  MetadataBothWays(shelf);
  Stages(shelf);
  ErrorPayload(shelf);
  Callback(shelf);
  Coroutines(*channel, shelf);
  Deadline(shelf);
  Cancellation(*channel, shelf);
  return 0;
}

}  // namespace
}  // namespace farcall::services

int main() { return farcall::services::Main(); }
