# The interface of the peer Cap'n Proto.
@0xff685924cc6251ee;

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("farcall::bench::capnp_peer");

interface Echo {
  call @0 (data :Data) -> (data :Data);
}
