// SPDX-License-Identifier: Apache-2.0
// A work of a GPU's tensors, as ProcessGroupNCCL's: the device orders it, and waiting for it holds up a stream, not the
// host. No header of CUDA is needed: torch's guards, streams and events are those of any device.
#pragma once

#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include <memory>

#include "work.h"

namespace lanecast_torch {

class DeviceWork final : public Work {
 public:
  enum class Wait { stream, host };  // who waits in wait()

  /// The call runs on `stream`, behind what the caller's current one holds when it is launched.
  DeviceWork(const Call& call, std::shared_ptr<Engine> engine, c10::Stream stream, Wait wait = Wait::stream);
  ~DeviceWork() override;

  void launch(const std::function<void(Work&)>& start) override;
  void start(Engine& engine, const lanecastCall_t& call, std::chrono::milliseconds timeout) override;

  const c10::Stream& stream() const { return stream_; }

  bool isCompleted() override;
  /// What the current stream does from now on comes after the call. Raises what the device has met so far.
  void synchronize() override;
  void blockCurrentStream() override { synchronize(); }
  /// The same; with a timeout, and for a barrier, the host waits too.
  bool wait(std::chrono::milliseconds timeout) override;

 private:
  c10::Stream current_stream() const;
  void wait_on_host(std::chrono::milliseconds timeout);
  void await_end() override;
  float measured_until(const Work& last) const override;
  void raise_device_error();

  const std::shared_ptr<Engine> engine_;
  const c10::Stream stream_;
  const Wait wait_;
  const std::shared_ptr<c10::Event> done_;
  std::optional<c10::Event> started_;  // where it is timed
  bool captured_ = false;              // in a graph: it runs whenever that is replayed
  bool awaited_ = false;               // guarded by mutex_
};

}  // namespace lanecast_torch
