// SPDX-License-Identifier: Apache-2.0
// What a driver without a GPU knows: its devices, contexts, and how much of each kind a program has not given back.
#pragma once

#include <array>
#include <atomic>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "queue.h"

namespace gpu_host {

enum Result {
  kOk = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kInvalidDevice = 101,
  kInvalidContext = 201,
  kNotFound = 500
};
enum Result2 {
  kNotReady = 600,
  kLaunchFailed = 719,
  kNotSupported = 801,
  kCaptureUnsupported = 900,
  kCaptureInvalidated = 901,
  kCaptureIsolation = 905
};

struct Allocation {
  int file = -1;
  std::size_t bytes = 0;
  bool opened = false;  // another process' memory
};

/// Memory that has no address until it is mapped: a file, which other processes may import.
struct Physical {
  int file = -1, device = 0, handle_types = 0;
  std::size_t bytes = 0;
  bool imported = false;
  int held = 0;  // references by handles
  ~Physical();
};

/// What a part of a reserved range of addresses is backed by.
struct MappedPiece {
  std::shared_ptr<Physical> physical;
  std::size_t bytes = 0;
};

struct Device {
  int ordinal = 0;
  int retained = 0;
  std::unique_ptr<Queue> default_stream;
  std::set<Queue*> streams;  // the others
};

/// What a test has asked of a call: the one after so many others of its name.
struct Arrangement {
  int value = 0, after = 0;
};

struct State {
  std::mutex mutex;
  std::vector<Device> devices = std::vector<Device>(8);
  std::map<char*, Allocation> memory;
  std::map<unsigned long long, std::shared_ptr<Physical>> physical;  // by handle
  std::map<char*, std::size_t> reserved;
  std::map<char*, MappedPiece> pieces;
  std::atomic<int> physical_made{0}, physical_imported{0};  // and not gone
  std::map<void*, std::unique_ptr<char[]>> pinned;
  std::map<std::string, Arrangement> failing;  // results that calls of these names shall have
  std::map<std::string, Arrangement> slow;     // how many ms they take longer
  std::map<std::string, Arrangement> ending;   // the process is killed in them
  std::atomic<int> torn{0};                    // memory that was freed while another process had it mapped
  std::atomic<int> nccl_calls{0};
  std::atomic<double> kernel_us{100}, nccl_us{100};  // by the clock of events
  std::atomic<int> capturing{0};                     // what streams say of themselves
  std::atomic<bool> captures{false};                 // some thread does, in global mode
  std::atomic<int> spoilt{0};                        // how often others have asked what they may not
  std::atomic<int> under_way{0};                     // what was enqueued and is not done
  std::atomic<int> streams{0}, events{0}, modules{0}, nccl{0};
};

/// Never destroyed: threads of streams may outlive main().
State& state();

/// What the test has asked for, once; else success.
int arranged(const char* call);

/// What no thread may ask while another one captures, but in relaxed mode, or in none; it is counted.
bool spoils_a_capture(bool whatever_mode = false);

/// The current context of this thread; null for none.
Device* current();

/// Null where there is neither a stream nor a context.
Queue* queue_of(Queue* stream);

/// On a stream, or for null on the default one; into the graph that captures it, if one does.
int enqueue(Queue* stream, std::function<void()> task);
void add_to(Graph& graph, std::function<void()> task);
/// Another stream waits for what a graph has captured, which captures that stream from here on as well.
int join(Queue& stream, Graph* graph);

}  // namespace gpu_host
