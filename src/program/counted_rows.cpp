// SPDX-License-Identifier: Apache-2.0
#include "program/counted_rows.h"

#include <algorithm>
#include <utility>

namespace lanecast {

CountedRows::CountedRows(const Plan& plan, CountsKnown counts) {
  if (counts == CountsKnown::before) return;
  const Collective& what = plan.collective;
  const PartRange inputs = what.inputs(plan.rank), outputs = what.outputs(plan.rank);
  CountedParts parts{.rows = {},
                     .inputs = static_cast<std::uint32_t>(inputs.count),
                     .outputs = static_cast<std::uint32_t>(outputs.count),
                     .by_pairs = counts == CountsKnown::by_pairs};
  in_.assign(static_cast<std::size_t>(what.parts()), 0);
  out_ = in_;
  const auto add = [&](std::vector<std::uint32_t>& rows, std::int32_t part) {
    parts.rows.push_back(part);
    rows[part] = static_cast<std::uint32_t>(parts.rows.size());
  };
  for (std::int32_t k = 0; k < inputs.count; ++k) add(in_, inputs[k]);
  for (std::int32_t k = 0; k < outputs.count; ++k) add(out_, outputs[k]);
  for (std::int32_t p = 0; !parts.by_pairs && p < what.parts(); ++p)
    if (in_[p] == 0 && out_[p] == 0) add(out_, p);
  for (std::int32_t k = 0; k < outputs.count; ++k)
    if (const std::int32_t part = outputs[k]; in_[part] != 0 && parts.by_pairs) {
      parts.own_in = in_[part];
      parts.own_out = out_[part];
    }
  parts_ = std::move(parts);
}

std::uint32_t CountedRows::of(std::int32_t part, gpu::Space space) const {
  if (!parts_) return 0;
  const auto& first = space == gpu::Space::in ? in_ : out_;
  const auto& other = space == gpu::Space::in ? out_ : in_;
  return first[part] != 0 || space == gpu::Space::out ? first[part] : other[part];
}

Program with_counts(const Program& program, const std::vector<std::size_t>& bytes) {
  const CountedParts& parts = program.counted_parts();
  const auto lanes = static_cast<gpu::u32>(program.slicing.lanes);
  const auto chunks = static_cast<gpu::u32>(program.slicing.chunks);
  std::vector<gpu::PartRow> rows(bytes.size());
  Program made = program;
  made.counted.reset();
  made.cut_by_pairs = parts.by_pairs;
  if (parts.by_pairs) made.slicing.chunks = 0;
  std::size_t base = 0;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    if (r == parts.inputs || r >= parts.inputs + parts.outputs) base = 0;
    rows[r] = {base, bytes[r],
               parts.by_pairs ? gpu::pair_stride(bytes[r], lanes) : gpu::stride_of(bytes[r], gpu::u64{lanes} * chunks)};
    base += bytes[r];
    if (parts.by_pairs)
      made.slicing.chunks = std::max(made.slicing.chunks, static_cast<int>(gpu::pair_chunks(bytes[r])));
  }
  for (gpu::Operand& o : made.operands) {
    const gpu::PartRow& row = rows[o.row - 1];
    if (o.space != gpu::Space::scratch) o.base = row.base;
    o.bytes = row.bytes;
    o.stride = row.stride;
  }
  for (Carried& one : made.carried)
    one.memory =
        gpu::carried_now(one.memory, program.operands.data(), rows.data(),
                         static_cast<gpu::u32>(program.slicing.lanes_of_channel()), parts.by_pairs ? 0 : chunks);
  for (gpu::Operand& o : made.operands) o.row = 0;
  return made;
}

}  // namespace lanecast
