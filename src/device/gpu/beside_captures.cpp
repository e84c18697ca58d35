// SPDX-License-Identifier: Apache-2.0
#include "device/gpu/beside_captures.h"

namespace lanecast::gpu {
namespace {

constexpr int kRelaxed = 2;  // CU_STREAM_CAPTURE_MODE_RELAXED

/// mode: what it was, afterwards. Of a driver that knows no modes nothing is asked.
int exchange(const Driver& driver, int& mode) {
  return driver.cuThreadExchangeStreamCaptureMode ? driver.cuThreadExchangeStreamCaptureMode(&mode) : kSuccess;
}

}  // namespace

BesideCaptures::BesideCaptures(const Driver& driver) noexcept
    : driver_(driver), mode_(kRelaxed), exchanged_(exchange(driver, mode_) == kSuccess) {}

BesideCaptures::~BesideCaptures() {
  if (exchanged_) exchange(driver_, mode_);
}

void BesideCaptures::for_good(const Driver& driver) {
  int mode = kRelaxed;
  driver.check(exchange(driver, mode), "cuThreadExchangeStreamCaptureMode");
}

}  // namespace lanecast::gpu
