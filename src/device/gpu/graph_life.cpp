// SPDX-License-Identifier: Apache-2.0
#include "device/gpu/graph_life.h"

#include "device/gpu/driver.h"

namespace lanecast::gpu {
namespace {

constexpr unsigned kNoDestructorSync = 1, kMove = 1;  // of CU_USER_OBJECT_ and CU_GRAPH_USER_OBJECT_

}  // namespace

GraphLife::GraphLife(const Device& device, Stream stream) {
  const Driver& driver = device.driver();
  if (!driver.cuStreamGetCaptureInfo || !driver.cuUserObjectCreate || !driver.cuGraphRetainUserObject) return;
  const Device::Current current(device);
  int status = 0;
  Graph graph = nullptr;
  device.check(driver.cuStreamGetCaptureInfo(stream, &status, nullptr, &graph, nullptr, nullptr),
               "cuStreamGetCaptureInfo");
  if (graph == nullptr) return;
  auto of = std::make_unique<Ended>(ended_);
  UserObject object = nullptr;
  device.check(driver.cuUserObjectCreate(&object, of.get(), &GraphLife::end, 1, kNoDestructorSync),
               "cuUserObjectCreate");
  static_cast<void>(of.release());  // end() has it now
  device.check(driver.cuGraphRetainUserObject(graph, object, 1, kMove), "cuGraphRetainUserObject");
}

/// By a thread of the driver's, which may not be asked for anything there.
void GraphLife::end(void* of) {
  const std::unique_ptr<Ended> ended(static_cast<Ended*>(of));
  (*ended)->store(true, std::memory_order_release);
}

}  // namespace lanecast::gpu
