// SPDX-License-Identifier: Apache-2.0
// Ranks as threads through the C interface alone, over shared memory, each with a progress thread: what Python's lock
// would keep apart runs at the same time here, and a thread sanitizer sees all of it.
//
// Usage: c_interface SECONDS. Each round makes communicators, calls and starts collectives on them and on what they
// split into, checks the results, and leaves in one of several ways, also in the middle of a call.
#include <lanecast/lanecast.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>
#include <vector>

namespace {

constexpr int kRanks = 3;

/// The bootstrap: a barrier through which bytes pass.
class Meeting {
 public:
  void all_gather(int rank, const void* in, void* out, std::size_t bytes) {
    std::unique_lock lock(mutex_);
    gathered_.resize(bytes * kRanks);
    if (bytes > 0) std::memcpy(gathered_.data() + rank * bytes, in, bytes);
    meet(lock);
    if (bytes > 0) std::memcpy(out, gathered_.data(), bytes * kRanks);
    meet(lock);
  }

 private:
  void meet(std::unique_lock<std::mutex>& lock) {
    const unsigned mine = meetings_;
    if (++arrived_ == kRanks) {
      arrived_ = 0;
      ++meetings_;
      all_here_.notify_all();
    }
    all_here_.wait(lock, [&] { return meetings_ != mine; });
  }

  std::mutex mutex_;
  std::condition_variable all_here_;
  std::vector<char> gathered_;
  int arrived_ = 0;
  unsigned meetings_ = 0;
};

struct Rank {
  Meeting& meeting;
  int rank;
  static int all_gather(const void* in, void* out, std::size_t bytes, void* self) {
    auto& me = *static_cast<Rank*>(self);
    me.meeting.all_gather(me.rank, in, out, bytes);
    return 0;
  }
};

void require(bool holds, const char* what, lanecastComm_t comm = nullptr) {
  if (holds) return;
  std::fprintf(stderr, "%s: %s\n", what, comm ? lanecastGetLastError(comm) : "");
  std::abort();
}

void call_all(lanecastComm_t comm, std::size_t count) {
  int rank = 0, size = 0;
  require(!lanecastCommUserRank(comm, &rank) && !lanecastCommCount(comm, &size), "rank and size", comm);
  const double sum = size * (size + 1) / 2.0;
  std::vector<double> mine(count, rank + 1.0), all(count * size), back(count), vector(count, rank + 1.0);
  lanecastWork_t works[3];
  require(!lanecastAllReduceStart(vector.data(), vector.data(), count, lanecastFloat64, lanecastSum, comm, &works[0]) &&
              !lanecastAllGatherStart(mine.data(), all.data(), count, lanecastFloat64, comm, &works[1]),
          "start", comm);
  int done = 0;
  require(!lanecastTest(works[0], &done), "test", comm);
  for (int k = 0; k < 2; ++k) require(!lanecastWait(works[k]), "wait", comm);
  require(!lanecastReduceScatterStart(all.data(), back.data(), count, lanecastFloat64, lanecastSum, comm, &works[2]) &&
              !lanecastAllReduce(mine.data(), mine.data(), count, lanecastFloat64, lanecastMax, comm) &&
              !lanecastWait(works[2]),
          "beside a started call", comm);
  for (std::size_t i = 0; i < count; ++i)
    require(vector[i] == sum && all[i] == 1 && all[all.size() - 1 - i] == size && mine[i] == size &&
                back[i] == size * (rank + 1.0),
            "values");
}

/// To the next rank and from the one before: started beside collectives, blocking, and each way by itself.
void send_round(lanecastComm_t comm, std::size_t count) {
  int rank = 0, size = 0;
  require(!lanecastCommUserRank(comm, &rank) && !lanecastCommCount(comm, &size), "rank and size", comm);
  if (size == 1) return;
  const int next = (rank + 1) % size, before = (rank + size - 1) % size;
  std::vector<double> mine(count, rank + 1.0), theirs(count), again(count), vector(count, rank + 1.0);
  const lanecastMessage_t messages[] = {{mine.data(), nullptr, count, lanecastFloat64, next, 3},
                                        {nullptr, theirs.data(), count, lanecastFloat64, before, 3}};
  lanecastWork_t works[3];
  require(!lanecastAllReduceStart(vector.data(), vector.data(), count, lanecastFloat64, lanecastMax, comm, &works[0]) &&
              !lanecastBatchStart(messages, 2, comm, &works[1]) && !lanecastBarrierStart(comm, &works[2]),
          "start", comm);
  if (rank % 2)
    require(!lanecastSend(mine.data(), count, lanecastFloat64, next, 4, comm), "send", comm);
  else if (before % 2)
    require(!lanecastRecv(again.data(), count, lanecastFloat64, before, 4, comm), "receive", comm);
  for (int k = 2; k >= 0; --k) require(!lanecastWait(works[k]), "wait", comm);
  require(!lanecastBatch(messages, 2, comm) && !lanecastBarrier(comm), "batch", comm);
  for (std::size_t i = 0; i < count; ++i)
    require(theirs[i] == before + 1 && vector[i] == size && (rank % 2 || !(before % 2) || again[i] == before + 1),
            "values of messages");
}

/// Two threads of each rank: a blocking call that cannot end before the other thread has passed a message on.
void call_beside(lanecastComm_t comm, std::size_t count) {
  int rank = 0, size = 0;
  require(!lanecastCommUserRank(comm, &rank) && !lanecastCommCount(comm, &size), "rank and size", comm);
  std::vector<double> vector(count, rank + 1.0);
  double token = 0;
  const auto receive = [&] { require(!lanecastRecv(&token, 1, lanecastFloat64, rank - 1, 5, comm), "receive", comm); };
  const auto send = [&] {
    const lanecastMessage_t message{&token, nullptr, 1, lanecastFloat64, rank + 1, 5};
    lanecastWork_t work = nullptr;
    require(!lanecastBatchStart(&message, 1, comm, &work) && !lanecastWait(work), "send beside a call", comm);
  };
  if (rank > 0) receive();
  lanecastError_t error{};
  std::thread other([&] {
    const lanecastCall_t call{
        lanecastCollAllReduce, vector.data(), vector.data(), count, nullptr, lanecastFloat64, lanecastSum, 0, nullptr};
    require(!lanecastRunBesideOthers(&call, 0, comm, &error), error.text);
    require(!lanecastBarrierBesideOthers(0, comm, &error), error.text);
  });
  if (rank + 1 < size) send();
  other.join();
  for (double each : vector) require(each == size * (size + 1) / 2.0, "values beside a message");
}

/// Bound calls, started in turn with others and run: with a root, to everyone, and reduced.
void call_bound(lanecastComm_t comm, std::size_t count) {
  int rank = 0, size = 0;
  require(!lanecastCommUserRank(comm, &rank) && !lanecastCommCount(comm, &size), "rank and size", comm);
  const int root = size - 1;
  std::vector<double> ones(count, rank + 1.0), sums(count), copies(count), out(count * size), in(count * size);
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<double>(i + rank * in.size());
  const lanecastCall_t calls[] = {
      {lanecastCollReduce, ones.data(), sums.data(), count, nullptr, lanecastFloat64, lanecastSum, root, nullptr},
      {lanecastCollBroadcast, ones.data(), copies.data(), count, nullptr, lanecastFloat64, lanecastSum, root, nullptr},
      {lanecastCollAllToAll, in.data(), out.data(), count, nullptr, lanecastFloat64, lanecastSum, 0, nullptr}};
  constexpr int kCalls = 3;
  lanecastPersistent_t bound[kCalls];
  for (int k = 0; k < kCalls; ++k) require(!lanecastPersistentInit(&calls[k], comm, &bound[k]), "bind", comm);
  for (int turn = 0; turn < 3; ++turn) {
    for (lanecastPersistent_t call : bound) require(!lanecastPersistentStart(call), "start what is bound", comm);
    require(!lanecastBarrier(comm), "barrier", comm);
    for (lanecastPersistent_t call : bound)
      require(!lanecastPersistentWait(call) && !lanecastPersistentRun(call), "wait, and run", comm);
    for (std::size_t i = 0; i < out.size(); ++i)
      require(out[i] == static_cast<double>(rank * count + i % count + i / count * in.size()), "values to all");
    for (std::size_t i = 0; i < count; ++i)
      require(copies[i] == size && (rank != root || sums[i] == size * (size + 1) / 2.0), "values of a root");
  }
  for (lanecastPersistent_t call : bound) require(!lanecastPersistentFree(call), "free", comm);
}

void rank_main(Rank me, unsigned round) {
  lanecastError_t error{};
  lanecastConfig_t config = LANECAST_CONFIG_INITIALIZER;
  config.timeout_s = 60;
  config.chunks = static_cast<int>(round % 4);
  config.error = &error;
  lanecastComm_t comm = nullptr, child = nullptr;
  if (lanecastCommInitAllGather(&comm, me.rank, kRanks, &Rank::all_gather, &me, &config)) {
    std::fprintf(stderr, "%s\n", error.text);
    std::abort();
  }
  call_all(comm, 1 + round * 997 % 40'000);
  require(!lanecastCommSplit(comm, me.rank % 2, -me.rank, &child), "split", comm);
  call_all(child, 100 + round % 50);
  send_round(comm, 1 + round * 499 % 20'000);
  call_beside(comm, 1 + round * 311 % 20'000);
  call_bound(child, 1 + round * 89 % 3'000);
  call_bound(comm, round % 5);
  call_all(comm, 7);
  if (round % 3 == 1) {  // one rank leaves while the others are in a call with it
    std::vector<float> large(200'000, 1.0F);
    lanecastWork_t work = nullptr;
    if (me.rank > 0) {
      require(
          !lanecastAllReduceStart(large.data(), large.data(), large.size(), lanecastFloat32, lanecastSum, comm, &work),
          "start", comm);
      if (me.rank == 1) require(lanecastWait(work) == lanecastTransportError, "a lost rank is noticed", comm);
    }
    require(!lanecastCommDestroy(comm), "destroy");
    if (me.rank == 2) require(lanecastWait(work) == lanecastTransportError, "destroyed under way");
    comm = nullptr;
  }
  if (round % 2) call_all(child, 20'000);
  require(!lanecastCommDestroy(comm) && !lanecastCommDestroy(child), "destroy");
}

}  // namespace

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? std::atof(argv[1]) : 5;
  const auto begin = std::chrono::steady_clock::now();
  unsigned rounds = 0;
  while (std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() < seconds || rounds < 3) {
    Meeting meeting;
    std::vector<std::thread> threads;
    for (int rank = 0; rank < kRanks; ++rank) threads.emplace_back(rank_main, Rank{meeting, rank}, rounds);
    for (std::thread& thread : threads) thread.join();
    ++rounds;
  }
  std::printf("%u rounds\n", rounds);
}
