// SPDX-License-Identifier: Apache-2.0
// Graphs of a driver without a GPU. What a stream captures runs in the order in which it was enqueued, whatever streams
// have joined in, and a launch is one task of the stream that it is launched on.
#include <algorithm>
#include <memory>
#include <vector>

#include "driver_state.h"

namespace gpu_host {

struct UserObject {
  void* object;
  void (*destroy)(void*);
  UserObject(void* object, void (*destroy)(void*)) : object(object), destroy(destroy) {}
  ~UserObject() { destroy(object); }
  UserObject(const UserObject&) = delete;
  UserObject& operator=(const UserObject&) = delete;
};

struct Captured {
  std::vector<std::function<void()>> tasks;
  std::vector<std::shared_ptr<UserObject>> objects;
};

struct Graph : Captured {
  std::vector<Queue*> streams;  // the first one began
};

/// A launch keeps what was instantiated until it has run.
struct Exec {
  std::shared_ptr<const Captured> what;
};

void add_to(Graph& graph, std::function<void()> task) { graph.tasks.push_back(std::move(task)); }

int join(Queue& stream, Graph* graph) {
  if (graph == nullptr || (stream.captured_by != nullptr && stream.captured_by != graph)) return kCaptureIsolation;
  if (stream.captured_by == nullptr) graph->streams.push_back(&stream);
  stream.captured_by = graph;
  return kOk;
}

extern "C" {

int cuStreamBeginCapture_v2(Queue* stream, int mode) {
  Queue* const queue = queue_of(stream);
  if (queue == nullptr) return kInvalidContext;
  if (queue->captured_by != nullptr) return kInvalidValue;
  auto* const graph = new Graph;
  state().spoilt = 0;
  state().captures = mode == 0;
  return join(*queue, graph);
}
int cuStreamEndCapture(Queue* stream, Graph** graph) {
  Queue* const queue = queue_of(stream);
  if (queue == nullptr || queue->captured_by == nullptr) return kInvalidValue;
  *graph = queue->captured_by;
  for (Queue* const joined : (*graph)->streams) joined->captured_by = nullptr;
  state().captures = false;
  return state().spoilt == 0 ? static_cast<int>(kOk) : static_cast<int>(kCaptureInvalidated);
}
int cuStreamGetCaptureInfo_v2(Queue* stream, int* status, std::uint64_t*, Graph** graph, const void**, std::size_t*) {
  Queue* const queue = queue_of(stream);
  if (queue == nullptr) return kInvalidContext;
  *status = queue->captured_by != nullptr ? 1 : 0;
  return *graph = queue->captured_by, kOk;
}

int cuUserObjectCreate(std::shared_ptr<UserObject>** made, void* object, void (*destroy)(void*), unsigned, unsigned) {
  return *made = new std::shared_ptr<UserObject>(std::make_shared<UserObject>(object, destroy)), kOk;
}
int cuGraphRetainUserObject(Graph* graph, std::shared_ptr<UserObject>* object, unsigned, unsigned flags) {
  graph->objects.push_back(*object);
  if (flags == 1) delete object;  // moved
  return kOk;
}

int cuGraphInstantiateWithFlags(Exec** exec, Graph* graph, unsigned long long) {
  return *exec = new Exec{std::make_shared<Captured>(*graph)}, kOk;
}
int cuGraphExecUpdate_v2(Exec* exec, Graph* graph, void*) {
  if (graph->tasks.size() != exec->what->tasks.size()) return kInvalidValue;
  return exec->what = std::make_shared<Captured>(*graph), kOk;
}
int cuGraphLaunch(Exec* exec, Queue* stream) {
  return enqueue(stream, [what = exec->what] {
    for (const auto& task : what->tasks) task();
  });
}
int cuGraphDestroy(Graph* graph) { return delete graph, kOk; }
int cuGraphExecDestroy(Exec* exec) { return delete exec, kOk; }

}  // extern "C"

}  // namespace gpu_host
