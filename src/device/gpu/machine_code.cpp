// SPDX-License-Identifier: Apache-2.0
#include "device/gpu/machine_code.h"

#include <elf.h>

#include <cstring>

#include "base/error.h"

namespace lanecast::gpu {
namespace {

template <class Record>
Record record_at(std::string_view file, std::size_t offset) {
  Record record;
  if (offset > file.size() || file.size() - offset < sizeof record)
    throw InternalError("the kernels' machine code is cut off");
  std::memcpy(&record, file.data() + offset, sizeof record);
  return record;
}

std::string_view text_at(std::string_view file, std::size_t begin) {
  const std::size_t end = file.find('\0', begin);
  if (end == std::string_view::npos) throw InternalError("the kernels' machine code is cut off");
  return file.substr(begin, end - begin);
}

/// What is left of the names that begin and end so.
void add(std::vector<std::string>& names, std::string_view name, std::string_view begin, std::string_view end) {
  if (name.starts_with(begin) && name.ends_with(end) && name.size() > begin.size() + end.size())
    names.emplace_back(name.substr(begin.size(), name.size() - begin.size() - end.size()));
}

std::vector<std::string> entries_of_ptx(std::string_view text) {
  constexpr std::string_view kEntry = ".entry ";
  std::vector<std::string> names;
  for (std::size_t at = text.find(kEntry); at != std::string_view::npos; at = text.find(kEntry, at)) {
    at += kEntry.size();
    names.emplace_back(text.substr(at, text.find_first_of("( \n", at) - at));
  }
  return names;
}

}  // namespace

std::vector<std::string> kernel_names(std::string_view code) {
  constexpr Elf64_Half kAmdGpu = 224;
  if (!code.starts_with(ELFMAG)) {
    std::vector<std::string> names = entries_of_ptx(code);
    if (names.empty()) throw InternalError("the kernels' machine code is neither an ELF file nor PTX");
    return names;
  }
  const auto header = record_at<Elf64_Ehdr>(code, 0);
  const auto section = [&](std::size_t k) {
    return record_at<Elf64_Shdr>(code, header.e_shoff + k * sizeof(Elf64_Shdr));
  };
  const auto strings = section(header.e_shstrndx).sh_offset;
  std::vector<std::string> names;
  for (std::size_t k = 0; k < header.e_shnum; ++k) {
    const Elf64_Shdr at = section(k);
    if (header.e_machine != kAmdGpu) {
      add(names, text_at(code, strings + at.sh_name), ".text.", "");
    } else if (at.sh_type == SHT_DYNSYM) {
      const auto symbol_names = section(at.sh_link).sh_offset;
      for (std::size_t offset = 0; offset < at.sh_size; offset += sizeof(Elf64_Sym))
        add(names, text_at(code, symbol_names + record_at<Elf64_Sym>(code, at.sh_offset + offset).st_name), "", ".kd");
    }
  }
  return names;
}

}  // namespace lanecast::gpu
