// Prints, for schemas, classes that implement all of their services, and two calls of every method:
// what a user would write by hand. exercise.h has the rest.
//
//   implement [-I DIR]... -o DIR SCHEMA.fbs...        writes DIR/services.cc

#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include "farcall/codegen/names.h"
#include "farcall/codegen/options.h"
#include "farcall/codegen/print.h"
#include "farcall/codegen/schema.h"

namespace {

using farcall::codegen::Fill;
using farcall::codegen::Method;
using farcall::codegen::Service;

bool IsUnary(const Method& method) { return method.streaming == farcall::Streaming::kNone; }

// A method of a service, in one form after the other.
std::string PrintMethod(const Service& service, const Method& method, size_t form) {
  constexpr std::string_view kForms[] = {
      R"(  ::absl::Status $Name$(::farcall::Context&, const $Request$& request,
                        ::farcall::Reply<$Response$>& reply) {
    return ::farcall_test::Answer<$Descriptor$>($Service$::info()).View(request, reply);
  }
)",
      R"(  ::boost::asio::awaitable<::absl::Status> $Name$(
      ::farcall::Context&, ::farcall::Msg<$Request$> request,
      ::farcall::Reply<$Response$>& reply) {
    const ::farcall_test::Answer<$Descriptor$> answer($Service$::info());
    co_return co_await answer.Coroutine(::std::move(request), reply);
  }
)",
      R"(  ::absl::Status $Name$(::farcall::Context&, const $RequestT$& request,
                        $ResponseT$& reply) {
    return ::farcall_test::Answer<$Descriptor$>($Service$::info()).Object(request, reply);
  }
)"};
  const std::string type = farcall::codegen::Rooted(service.name_space, service.name);
  return Fill(kForms[form % 3], {{"Name", method.name},
                                 {"Service", type},
                                 {"Descriptor", type + "::" + method.descriptor},
                                 {"Request", method.request.view},
                                 {"Response", method.response.view},
                                 {"RequestT", method.request.object},
                                 {"ResponseT", method.response.object}});
}

std::string PrintCall(const std::string& type, const Method& method, bool built) {
  const std::string descriptor = type + "::" + method.descriptor;
  if (!IsUnary(method)) {
    return Fill("  exercise.Streaming($Descriptor$::info(), client.$Name$());\n",
                {{"Descriptor", descriptor}, {"Name", method.name}});
  }
  return Fill(R"(  exercise.Unary<$Descriptor$, $built$>(
      $Service$::info(),
      [&](auto&& request) { return client.$Name$(::std::forward<decltype(request)>(request)); },
      [&] { return client.$New$(64); },
      [&](auto&& request) {
        return client.$Async$(::std::forward<decltype(request)>(request), {},
                              ::boost::asio::use_future);
      });
)",
              {{"Descriptor", descriptor},
               {"built", built ? "true" : "false"},
               {"Service", type},
               {"Name", method.name},
               {"New", method.new_name},
               {"Async", method.async_name}});
}

std::string PrintService(const Service& service, const std::string& number) {
  const std::string type = farcall::codegen::Rooted(service.name_space, service.name);
  const std::string its_concept =
      farcall::codegen::Rooted(service.name_space, service.concept_name);
  std::string printed =
      "// " + service.full_name + "\nclass Implementation" + number + " {\n public:\n";
  size_t form = 0;
  for (const Method& method : service.methods) {
    printed += IsUnary(method) ? PrintMethod(service, method, form++) : "";
  }
  printed += Fill(
      "};\nstatic_assert($Concept$<Implementation$number$>);\n\n"
      "void Call$number$(::farcall_test::Exercise& exercise) {\n"
      "  $Service$::Client client(exercise.channel());\n",
      {{"Concept", its_concept}, {"number", number}, {"Service", type}});
  bool built = false;
  for (const Method& method : service.methods) {
    built = !built;
    printed += PrintCall(type, method, built);
  }
  return printed + "}\n\n";
}

}  // namespace

int main(int argc, char** argv) {
  farcall::codegen::Options options;
  const std::string problem = farcall::codegen::ParseOptions({argv + 1, argv + argc}, options);
  if (!problem.empty()) {
    std::cerr << "implement: " << problem << '\n';
    return 2;
  }
  std::string includes = "#include \"farcall/tests/codegen/exercise.h\"\n";
  std::string classes = "\nnamespace {\n\n";
  std::string adds;
  std::string calls;
  size_t count = 0;
  for (const std::string& input : options.inputs) {
    const auto schema = farcall::codegen::ReadSchema(input, options.include_dirs);
    for (const std::string& line : schema.problems) {
      std::cerr << line << '\n';
      return 1;
    }
    includes += "#include \"" + schema.stem + ".rpc.h\"\n";
    for (const Service& service : schema.services) {
      const std::string number = std::to_string(count++);
      const std::string type = farcall::codegen::Rooted(service.name_space, service.name);
      classes += PrintService(service, number);
      adds += "  Implementation" + number + " implementation" + number + ";\n  exercise.Add(" +
              type + "::Bind(implementation" + number + "));\n";
      calls += "  Call" + number + "(exercise);\n";
    }
  }
  std::ofstream out(options.output_dir + "/services.cc");
  out << includes << classes << "}  // namespace\n\n"
      << "void farcall_test::RunServices(Exercise& exercise) {\n"
      << adds << "  exercise.Start();\n"
      << calls << "}\n";
  return out.flush() ? 0 : 1;
}
