// Messages of any table, made up from the binary schema: for tests that know no type by name.

#ifndef FARCALL_TESTS_CODEGEN_SAMPLE_H_
#define FARCALL_TESTS_CODEGEN_SAMPLE_H_

#include <flatbuffers/flatbuffers.h>
#include <flatbuffers/reflection_generated.h>

#include <cstdint>
#include <string>

namespace farcall_test {

// The bytes of a message of the table `object`: scalars, strings and vectors of them, tables to a
// small depth, and whatever is required. The same `seed` gives the same bytes.
std::string BuildSample(const ::reflection::Schema& schema, const ::reflection::Object& object,
                        uint64_t seed);

}  // namespace farcall_test

#endif  // FARCALL_TESTS_CODEGEN_SAMPLE_H_
