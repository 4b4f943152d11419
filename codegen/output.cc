#include "farcall/codegen/output.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

namespace farcall::codegen {
namespace {

// A name of this process's own: two generators may write the same file at once.
std::string Temporary(const std::string& path) {
  return path + ".tmp" + std::to_string(::getpid());
}

std::string Write(const OutputFile& file) {
  const std::filesystem::path folder = std::filesystem::path(file.path).parent_path();
  std::error_code error;
  if (!folder.empty()) {
    std::filesystem::create_directories(folder, error);
    if (error) {
      return folder.string() + ": cannot make this folder: " + error.message();
    }
  }
  std::ofstream out(Temporary(file.path), std::ios::binary | std::ios::trunc);
  out << file.text;
  out.close();
  return out ? "" : file.path + ": cannot write: " + std::strerror(errno);
}

std::string EscapeForMake(std::string_view path) {
  std::string escaped;
  for (const char c : path) {
    if (c == ' ' || c == '#' || c == '\\') {
      escaped += '\\';
    } else if (c == '$') {
      escaped += '$';
    }
    escaped += c;
  }
  return escaped;
}

}  // namespace

std::string WriteAll(const std::vector<OutputFile>& files) {
  std::string problem;
  for (const OutputFile& file : files) {
    if (problem.empty()) {
      problem = Write(file);
    }
  }
  for (const OutputFile& file : files) {
    std::error_code error;
    if (problem.empty()) {
      std::filesystem::rename(Temporary(file.path), file.path, error);
      problem = error ? file.path + ": cannot put in place: " + error.message() : "";
    }
  }
  if (!problem.empty()) {
    for (const OutputFile& file : files) {
      std::error_code ignored;
      std::filesystem::remove(Temporary(file.path), ignored);
    }
    RemoveAll(files);
  }
  return problem;
}

void RemoveAll(const std::vector<OutputFile>& files) {
  for (const OutputFile& file : files) {
    std::error_code ignored;
    if (std::filesystem::is_regular_file(file.path, ignored)) {
      std::filesystem::remove(file.path, ignored);
    }
  }
}

std::string PrintRule(const std::vector<std::string>& outputs,
                      const std::vector<std::string>& inputs) {
  std::string rule;
  for (const std::string& output : outputs) {
    rule += (rule.empty() ? "" : " ") + EscapeForMake(output);
  }
  rule += ":";
  for (const std::string& input : inputs) {
    rule += " \\\n  " + EscapeForMake(input);
  }
  return rule + "\n";
}

}  // namespace farcall::codegen
