// Asio, spelled the same everywhere: farcall::asio is Boost.Asio.
//
// rpc/ uses Asio as vocabulary (executors, completion tokens, coroutines, cancellation slots),
// never as a wire: sockets appear in transports/tcp alone.

#ifndef FARCALL_RPC_ASIO_H_
#define FARCALL_RPC_ASIO_H_

namespace boost::asio {}

namespace farcall {
namespace asio = ::boost::asio;  // NOLINT(misc-unused-alias-decls)
}  // namespace farcall

#endif  // FARCALL_RPC_ASIO_H_
