// SPDX-License-Identifier: Apache-2.0
#include "runtime/communicator/models_in_bytes.h"

#include <cstring>
#include <type_traits>

#include "base/error.h"

namespace lanecast {
namespace {

// One list of fields for both directions: an archive reads or writes each in turn.

template <class Archive>
void each_field(Archive& archive, LinkTraits& traits) {
  archive(traits.by_library, traits.by_itself, traits.sends_once_from, traits.asks_from, traits.asking_bytes,
          traits.read_from);
}

template <class Archive>
void each_field(Archive& archive, Link& link) {
  archive(link.alpha_s, link.beta_s_per_byte, link.unsteady, link.crowd, link.traits, link.gap_s, link.filling,
          link.source);
}

template <class Archive>
void each_field(Archive& archive, Fit& fit) {
  archive(fit.kind, fit.algorithm, fit.level, fit.from_bytes, fit.alpha_s, fit.beta_s_per_byte, fit.half);
}

template <class Archive>
void each_field(Archive& archive, Overlap& overlap) {
  archive(overlap.kind, overlap.hidden, overlap.latency, overlap.scale);
}

template <class Archive>
void each_field(Archive& archive, SupportVectors& vectors) {
  vectors.each_field(archive);
}

template <class Archive>
void each_field(Archive& archive, Svm& svm) {
  archive(svm.mean, svm.scale, svm.gamma, svm.support, svm.vectors, svm.weights, svm.intercepts);
}

template <class Archive>
void each_field(Archive& archive, TimedCall& call) {
  archive(call.ranks, call.bytes, call.seconds);
}

template <class Archive>
void each_field(Archive& archive, Pin& pin) {
  archive(pin.kind, pin.least_bytes, pin.most_bytes, pin.algorithm, pin.chunks);
}

template <class Archive>
void each_field(Archive& archive, Learned& learned) {
  archive(learned.kind, learned.least_bytes, learned.most_bytes, learned.least_ranks, learned.most_ranks,
          learned.algorithms, learned.timed_on, learned.svm, learned.times);
}

template <class Archive>
void each_field(Archive& archive, PeerFits& peers) {
  archive(peers.gpu, peers.ranks, peers.file, peers.fits);
}

template <class Archive>
void each_field(Archive& archive, WayCalls& calls) {
  archive(calls.half, calls.captured, calls.symmetric, calls.copy_engine, calls.few_ctas);
}

template <class Archive>
void each_field(Archive& archive, GpuModel::Way& way) {
  archive(way.calls, way.machine);
}

template <class Archive>
void each_field(Archive& archive, GpuModel& model) {
  archive(model.gpu, model.file, model.one_host, model.ways);
}

template <class Archive>
void each_field(Archive& archive, Models& models) {
  archive(models.links, models.reduce_s_per_byte, models.fits, models.overlaps, models.learned, models.pins,
          models.peers, models.gpu_models, models.timing);
}

template <class Value>
concept Listed = requires(Value value) { value.resize(0); };

class BytesWriter {
 public:
  template <class... Values>
  void operator()(Values&... values) {
    (write(values), ...);
  }
  std::string bytes;

 private:
  template <class Value>
  void write(Value& value) {
    if constexpr (Listed<Value>) {
      std::size_t count = value.size();
      write(count);
      for (auto& each : value) write(each);
    } else if constexpr (requires { each_field(*this, value); }) {
      each_field(*this, value);
    } else {
      static_assert(std::is_trivially_copyable_v<Value>);
      bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
    }
  }
};

class BytesReader {
 public:
  explicit BytesReader(std::string_view bytes) : left_(bytes) {}

  template <class... Values>
  void operator()(Values&... values) {
    (read(values), ...);
  }

 private:
  template <class Value>
  void read(Value& value) {
    if constexpr (Listed<Value>) {
      std::size_t count = 0;
      read(count);
      if (count > left_.size()) throw InternalError("models: cut off on their way from rank 0");
      value.resize(count);
      for (auto& each : value) read(each);
    } else if constexpr (requires { each_field(*this, value); }) {
      each_field(*this, value);
    } else {
      if (sizeof value > left_.size()) throw InternalError("models: cut off on their way from rank 0");
      std::memcpy(&value, left_.data(), sizeof value);
      left_.remove_prefix(sizeof value);
    }
  }

  std::string_view left_;
};

}  // namespace

std::string bytes_of(const Models& models) {
  BytesWriter writer;
  Models fields = models;  // an archive takes what it could also write to
  each_field(writer, fields);
  return std::move(writer.bytes);
}

Models models_from(std::string_view bytes) {
  Models models;
  BytesReader reader(bytes);
  each_field(reader, models);
  return models;
}

}  // namespace lanecast
