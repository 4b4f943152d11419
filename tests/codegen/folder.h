// A folder of a test's own, with files in it; gone when the test is over.

#ifndef FARCALL_TESTS_CODEGEN_FOLDER_H_
#define FARCALL_TESTS_CODEGEN_FOLDER_H_

#include <stdlib.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace farcall::codegen {

class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "farcall_gen.XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

  // Writes a file, and the folders that it needs. Returns its path.
  std::string Write(const std::string& name, const std::string& text) const {
    const std::string path = *this / name;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }

 private:
  std::string path_;
};

inline std::string Read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace farcall::codegen

#endif  // FARCALL_TESTS_CODEGEN_FOLDER_H_
