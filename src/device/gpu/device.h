// SPDX-License-Identifier: Apache-2.0
// One GPU, and with NVIDIA its primary context, which it shares with the frameworks of the process.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "device/gpu/driver.h"

namespace lanecast::gpu {

/// The GPU that this thread's calls of CUDA mean; 0 where it has none yet, as CUDA's runtime has it.
int current_ordinal();

class Device {
 public:
  /// ordinal: as the driver counts those that the environment lets it see. Throws UsageError for one that is not there.
  static std::shared_ptr<Device> open(int ordinal);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const Driver& driver() const { return *driver_; }
  void check(int result, const char* call) const { driver_->check(result, call); }
  /// For calls that must not throw; else see Current.
  int enter(int* before) const { return driver_->enter(context_, handle_, before); }
  int ordinal() const { return ordinal_; }
  std::string name() const;
  std::string architecture() const;  // "sm_90", "gfx90a"
  int multiprocessors() const;
  int warp() const;         // threads that run in step
  int shared_room() const;  // bytes of shared memory that a block may ask for; 0 where nobody says
  /// Does it see what a NIC writes into its memory before what that writes later, wherever it looks?
  bool sees_remote_writes_in_order() const;
  bool has_multicast() const;  // among the GPUs of a host, by the switch between them
  bool has_clusters() const;   // of blocks, which a launch may ask for
  /// Is it recorded into a graph? The default stream is this device's here.
  bool captures(Stream stream) const;
  std::string uuid() const;  // 16 bytes in hex
  std::string pci_bus_id() const;

  /// Makes the device the current one of this thread while it lives, where it is not.
  class Current {
   public:
    explicit Current(const Device& device);
    ~Current();
    Current(const Current&) = delete;
    Current& operator=(const Current&) = delete;

   private:
    const Driver& driver_;
    bool entered_;
    int before_ = 0;
  };

 private:
  Device(std::shared_ptr<const Driver> driver, int ordinal);
  int attribute(Attribute which) const;
  /// The same of what older drivers and AMD's do not know.
  std::optional<int> attribute_if_known(Attribute which) const;

  std::shared_ptr<const Driver> driver_;
  int ordinal_;
  int handle_ = 0;
  Context context_ = nullptr;
};

}  // namespace lanecast::gpu
