// SPDX-License-Identifier: Apache-2.0
#include "device/gpu/cubin.h"

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

}  // namespace

std::vector<std::string> kernel_names(std::string_view cubin) {
  constexpr std::string_view kText = ".text.";
  if (!cubin.starts_with(ELFMAG)) throw InternalError("the kernels' machine code is no ELF file");
  const auto header = record_at<Elf64_Ehdr>(cubin, 0);
  const auto section = [&](std::size_t k) {
    return record_at<Elf64_Shdr>(cubin, header.e_shoff + k * sizeof(Elf64_Shdr));
  };
  const auto strings = section(header.e_shstrndx).sh_offset;
  std::vector<std::string> names;
  for (std::size_t k = 0; k < header.e_shnum; ++k) {
    const std::size_t begin = strings + section(k).sh_name;
    const std::size_t end = cubin.find('\0', begin);
    if (end == std::string_view::npos) throw InternalError("the kernels' machine code is cut off");
    const std::string_view name = cubin.substr(begin, end - begin);
    if (name.starts_with(kText)) names.emplace_back(name.substr(kText.size()));
  }
  return names;
}

}  // namespace lanecast::gpu
