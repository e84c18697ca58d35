// SPDX-License-Identifier: Apache-2.0
// A collective of one's own: what must move and what must be added, without a word on how. It is data, and it is what
// its plans are proven against.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "plan/block.h"
#include "plan/collective.h"

namespace lanecast {

/// multicast: the leaves get the root's value. reduce: the root gets the sum of the leaves' values.
struct Primitive {
  enum class Action : std::uint8_t { multicast, reduce };
  Action kind{};
  ReduceOp op{};  // reduce
  std::int32_t step = 0;
  std::int32_t root = 0;
  Range leaves;
  Range pieces;
};

/// Primitives in steps that fences separate. Those of one step happen side by side, in whatever order they were named:
/// each reads the values from before its step, and no two write the same element on the same rank. A rank ends with
/// the newest values of the parts in its output. Source: HiCCL, section III.
class Composition {
 public:
  using Parts = std::vector<std::int32_t>;

  /// inputs[r], outputs[r]: the parts that rank r brings and those that it ends with, as they lie in its buffers.
  Composition(const std::vector<Parts>& inputs, const std::vector<Parts>& outputs);
  /// No primitive yet, and the buffers of this collective.
  explicit Composition(const Collective& buffers);

  // All throw UsageError, and then change nothing, where a rank or part does not exist, a rank has no value of what the
  // primitive reads, or another primitive of the step writes the same element.
  void multicast(int root, const std::vector<int>& leaves, const Pieces& pieces);
  /// An average divides by the number of leaves.
  void reduce(const std::vector<int>& leaves, int root, const Pieces& pieces, ReduceOp op);
  /// What follows reads what was written before. Orders nothing that does not depend on each other.
  void fence();

  /// Throws UsageError where the rank ends with a part of which it has no value.
  void require_complete(int rank) const;

  int size() const { return static_cast<int>(inputs_.size()); }
  std::int32_t parts() const { return parts_; }
  std::int32_t steps() const { return primitives_.empty() ? 0 : primitives_.back().step + 1; }
  PartRange inputs(int rank) const { return inputs_[rank]; }
  PartRange outputs(int rank) const { return outputs_[rank]; }
  const std::vector<Primitive>& primitives() const { return primitives_; }
  /// Ascending, each once.
  std::span<const int> leaves(const Primitive& p) const { return {leaves_.data() + p.leaves.first, p.leaves.count}; }
  std::span<const Piece> pieces(const Primitive& p) const { return {pieces_.data() + p.pieces.first, p.pieces.count}; }
  /// Does this rank end the step with a new value?
  bool writes(const Primitive& p, int rank) const;

  /// Equal for compositions that mean the same to whoever lowers them: the order within steps does not count.
  std::uint64_t digest() const;

 private:
  struct Write {
    Fraction lo, hi;
    std::uint32_t primitive;
    std::uint32_t earlier;  // to the same part; kNone: this is the first
  };

  PartRange range_of(const Parts& parts, int rank, const char* name);
  void add(Primitive primitive, const std::vector<int>& leaves, const Pieces& pieces);
  void require_sane(const Primitive& primitive, const Pieces& pieces) const;
  void require_values(const Primitive& primitive) const;
  void require_alone(const Primitive& primitive) const;
  bool meet(const Primitive& a, const Primitive& b) const;
  /// Does the rank have a value of the piece before this step?
  bool has_value(int rank, const Piece& piece, std::int32_t step) const;

  std::int32_t parts_ = 0;
  std::vector<PartRange> inputs_, outputs_;
  std::vector<std::shared_ptr<const PartList>> lists_;
  std::vector<Primitive> primitives_;
  std::vector<int> leaves_;
  std::vector<Piece> pieces_;
  std::vector<Write> writes_;
  std::vector<std::uint32_t> last_write_;  // of each part
  std::int32_t step_ = 0;
};

/// "multicast from rank 0 to ranks 1, 2 of part 0[0,1/2)"
std::string describe(const Composition& composition, const Primitive& primitive);

}  // namespace lanecast
