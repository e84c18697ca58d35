// SPDX-License-Identifier: Apache-2.0
#include "base/shared_pages.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

#include "base/memory_limits.h"

// Of Linux 5.14 and 6.3, which a C library may be older than.
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

namespace lanecast {

namespace {

std::string reason(int error) { return std::generic_category().message(error); }

/// What to do about the failure of a system call that takes one more of something.
std::string remedy(int error) {
  switch (error) {
    case EMFILE:
      return "; this process has too many files open: free communicators or raise the limit (ulimit -n)";
    case ENFILE:
      return "; this host has too many files open (fs.file-max)";
    case ENOMEM:
      return "; free communicators, or raise the limit of address space (ulimit -v) or of mappings (vm.max_map_count)";
    case EPERM:
    case EACCES:
    case ENOSYS:
      return "; a sandbox forbids it (seccomp, vm.memfd_noexec): allow memfd_create, or choose other transports than "
             "shm";
    default:
      return {};
  }
}

[[noreturn]] void refuse(std::size_t bytes, const std::string& why) {
  throw MemoryShortage("cannot reserve " + std::to_string(bytes) + " bytes of shared memory: " + why);
}

int reserve_by_file(const FileDescriptor& file, std::size_t offset, std::size_t bytes) {
  int error = 0;
  do error = posix_fallocate(file.get(), static_cast<off_t>(offset), static_cast<off_t>(bytes));
  while (error == EINTR);
  return error;
}

/// By the addresses alone, so that no file need stay open. EINVAL before Linux 5.14.
int reserve_by_address(std::byte* begin, std::size_t bytes) {
  int error = 0;
  do error = madvise(begin, bytes, MADV_POPULATE_WRITE) == 0 ? 0 : errno;
  while (error == EINTR || error == EAGAIN);
  return error;
}

}  // namespace

Mapping::Mapping(const FileDescriptor& file, std::size_t bytes) : Mapping() {
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (data == MAP_FAILED)
    throw TransportError("cannot map " + std::to_string(bytes) + " bytes of shared memory: " + reason(errno) +
                         remedy(errno));
  data_ = static_cast<std::byte*>(data);
  bytes_ = bytes;
  if (reserve_by_address(data_, 0) == 0) return;  // an empty range asks whether the kernel knows how
  file_ = FileDescriptor(fcntl(file.get(), F_DUPFD_CLOEXEC, 0));
  if (file_.get() < 0) throw TransportError("cannot keep shared memory open: " + reason(errno) + remedy(errno));
}

Mapping::~Mapping() {
  if (data_) munmap(data_, bytes_);
}

void Mapping::swap(Mapping& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(file_, other.file_);
}

void Mapping::reserve(const std::byte* begin, std::size_t bytes) const {
  if (const std::string shortage = memory_shortage(bytes); !shortage.empty()) refuse(bytes, shortage);
  static const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const auto offset = static_cast<std::size_t>(begin - data_);
  const std::size_t first = offset / page * page;
  const std::size_t length = offset + bytes - first;
  const int error = file_.get() < 0 ? reserve_by_address(data_ + first, length) : reserve_by_file(file_, first, length);
  // EFAULT: where an access would end in SIGBUS.
  if (error != 0)
    refuse(bytes, (error == EFAULT ? "the host has none left" : reason(error)) + "; free memory or raise the limit");
}

FileId id_of(const FileDescriptor& file) {
  struct stat status{};
  if (fstat(file.get(), &status) != 0) throw TransportError("fstat of shared memory failed: " + reason(errno));
  return {status.st_dev, status.st_ino};
}

FileDescriptor make_memory(std::size_t bytes) {
  FileDescriptor file(memfd_create("lanecast", MFD_CLOEXEC | MFD_NOEXEC_SEAL));
  if (file.get() < 0 && errno == EINVAL) file = FileDescriptor(memfd_create("lanecast", MFD_CLOEXEC));
  if (file.get() < 0) throw TransportError("memfd_create failed: " + reason(errno) + remedy(errno));
  // Asked first, since the system call ends a process that exceeds it by SIGXFSZ.
  rlimit largest{};
  if (getrlimit(RLIMIT_FSIZE, &largest) == 0 && largest.rlim_cur < bytes)
    refuse(bytes, "files may have " + std::to_string(largest.rlim_cur) + " bytes; raise the limit (ulimit -f)");
  if (ftruncate(file.get(), static_cast<off_t>(bytes)) != 0) refuse(bytes, reason(errno));
  return file;
}

FileDescriptor open_memory_of(int pid, int fd, const FileId& id) {
  const std::string path = "/proc/" + std::to_string(pid) + "/fd/" + std::to_string(fd);
  FileDescriptor file(open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (file.get() < 0)
    throw TransportError("cannot open " + path + ": " + reason(errno) +
                         (errno == EMFILE || errno == ENFILE
                              ? remedy(errno)
                              : "; ranks of one host need one user and one PID namespace"));
  if (id_of(file) != id)
    throw TransportError(path +
                         " is not the shared memory that was announced; ranks of one host need one PID namespace");
  return file;
}

}  // namespace lanecast
