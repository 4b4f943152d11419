// A whole run of farcall-gen: schemas in, files out.

#ifndef FARCALL_CODEGEN_GENERATE_H_
#define FARCALL_CODEGEN_GENERATE_H_

#include <iosfwd>

#include "farcall/codegen/options.h"

namespace farcall::codegen {

// Generates every input of `options`, or none: then the reasons are on `errors`, the files that the
// run would have written are gone, and the result is false.
bool Generate(const Options& options, std::ostream& errors);

}  // namespace farcall::codegen

#endif  // FARCALL_CODEGEN_GENERATE_H_
