// SPDX-License-Identifier: Apache-2.0
#include "base/shared_pages.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <string>
#include <system_error>

#include "base/error.h"

namespace lanecast {

namespace {

std::string reason(int error) { return std::generic_category().message(error); }

}  // namespace

Mapping::Mapping(const FileDescriptor& file, std::size_t offset, std::size_t bytes) : bytes_(bytes) {
  void* data =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, file.get(), static_cast<off_t>(offset));
  if (data == MAP_FAILED)
    throw TransportError("cannot map " + std::to_string(bytes) + " bytes of shared memory: " + reason(errno));
  data_ = static_cast<std::byte*>(data);
}

Mapping::~Mapping() {
  if (data_) munmap(data_, bytes_);
}

FileId id_of(const FileDescriptor& file) {
  struct stat status{};
  if (fstat(file.get(), &status) != 0) throw TransportError("fstat of shared memory failed: " + reason(errno));
  return {status.st_dev, status.st_ino};
}

FileDescriptor reserve_memory(std::size_t bytes) {
  FileDescriptor file(memfd_create("lanecast", MFD_CLOEXEC));
  if (file.get() < 0) throw TransportError("memfd_create failed: " + reason(errno));
  int error = 0;
  do error = posix_fallocate(file.get(), 0, static_cast<off_t>(bytes));
  while (error == EINTR);
  if (error != 0)
    throw TransportError("cannot reserve " + std::to_string(bytes) + " bytes of shared memory: " + reason(error) +
                         "; free memory or raise the limit");
  return file;
}

FileDescriptor open_memory_of(int pid, int fd, const FileId& id) {
  const std::string path = "/proc/" + std::to_string(pid) + "/fd/" + std::to_string(fd);
  FileDescriptor file(open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (file.get() < 0)
    throw TransportError("cannot open " + path + ": " + reason(errno) +
                         "; ranks of one host need one user and one PID namespace");
  if (id_of(file) != id)
    throw TransportError(path +
                         " is not the shared memory that was announced; ranks of one host need one PID namespace");
  return file;
}

}  // namespace lanecast
