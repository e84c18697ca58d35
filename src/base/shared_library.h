// SPDX-License-Identifier: Apache-2.0
// A vendor's library, found and opened when the program runs, so that one build of ours serves machines with and
// without.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace lanecast {

/// Where to look, in this order: the file that an environment variable names, the folders, what the process or the
/// loader finds by name, the folders where vendors install.
struct LibrarySearch {
  const char* what;      // for messages: "NVRTC, NVIDIA's run-time compiler"
  const char* variable;  // of the environment; nothing else is tried where it is set
  std::span<const char* const> names;
  std::vector<std::string> folders;
  std::vector<std::string> vendor_folders;
  const char* advice;  // what to do where there is none
};

/// Stays in the process: what is loaded may hold threads and exit handlers of its own.
class SharedLibrary {
 public:
  /// Throws UsageError that says what was tried and what to do.
  static SharedLibrary open(const LibrarySearch& search);

  /// A function by its name: converts to any pointer to a function.
  class Symbol {
   public:
    explicit Symbol(void* address) : address_(address) {}
    template <class Function>
    operator Function*() const {  // NOLINT(google-explicit-constructor): the target's type is the function's signature
      return reinterpret_cast<Function*>(address_);
    }

   private:
    void* address_;
  };

  /// Throws UsageError: the library is too old.
  Symbol required(const char* name) const;
  /// Null where the library has none.
  Symbol optional(const char* name) const;

  const std::string& path() const { return path_; }

 private:
  SharedLibrary(void* handle, const char* what);

  void* handle_;
  std::string path_;
  const char* what_;
};

}  // namespace lanecast
