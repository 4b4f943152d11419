// The service of the peer Thrift.
namespace cpp farcall.bench.thrift_peer

service Echo {
  binary call(1: binary data)
}
