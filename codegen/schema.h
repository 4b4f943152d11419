// What the generator knows of one schema file: read by the FlatBuffers library's parser, checked,
// and with every C++ name decided. Printing needs nothing else.

#ifndef FARCALL_CODEGEN_SCHEMA_H_
#define FARCALL_CODEGEN_SCHEMA_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "farcall/rpc/method.h"

namespace farcall::codegen {

// The two C++ types of a message: flatc's view of the buffer, and its object API.
struct MessageType {
  std::string view;    // "::a::b::Hello"
  std::string object;  // "::a::b::HelloT"
};

struct Method {
  std::string full_name;  // "a.b.Service/Method", as in the schema
  uint64_t id = 0;
  Streaming streaming = Streaming::kNone;
  bool idempotent = false;
  MessageType request, response;
  std::vector<std::string> comment;  // the lines of the doc comment, without slashes

  std::string name;        // in C++: of the client's blocking method and of the service's
  std::string new_name;    // of the client's method that gives a builder
  std::string async_name;  // of the client's asynchronous method
  std::string descriptor;  // of the struct that describes the method
};

struct Service {
  std::string full_name;  // "a.b.Service", as in the schema
  std::vector<std::string> name_space;
  std::vector<std::string> comment;
  std::vector<Method> methods;  // in the schema's order

  std::string name;          // of the class
  std::string concept_name;  // of the concept that its implementations satisfy
};

struct Schema {
  std::string stem;  // "echo" of "dir/echo.fbs"
  std::vector<Service> services;
  std::string binary;                 // the schema and its includes, by reflection.fbs
  std::vector<std::string> files;     // the file itself, then all it includes, sorted
  std::vector<std::string> problems;  // "file:line: reason", why nothing may be generated from it
};

// The file name without folder and ".fbs".
std::string Stem(const std::string& path);

// Reads `path` and what it includes, looked for beside the including file and then in
// `include_dirs` in turn. Whatever is wrong is in `problems`, which begin with the path as given.
// `method_id` is for tests: collisions of the true hash are hard to come by.
Schema ReadSchema(const std::string& path, const std::vector<std::string>& include_dirs,
                  uint64_t (*method_id)(std::string_view) = &MethodId);

}  // namespace farcall::codegen

#endif  // FARCALL_CODEGEN_SCHEMA_H_
