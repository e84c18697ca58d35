// SPDX-License-Identifier: Apache-2.0
// From each rank to each.
#include <numeric>

#include "backend.h"
#include "types.h"

namespace lanecast_torch {
namespace {

using Splits = std::vector<std::int64_t>;

/// How much of `tensor` goes to, or comes from, each rank: `splits` count its rows; without splits all get the same.
std::vector<std::size_t> counts_of(const char* argument, const at::Tensor& tensor, const Splits& splits, int size) {
  const std::int64_t rows = tensor.dim() > 0 ? tensor.size(0) : 1;
  if (splits.empty()) {
    TORCH_CHECK_VALUE(rows % size == 0, "lanecast: all_to_all_single: Tensor's dim 0 does not divide equally across ",
                      "group size: ", argument, " has ", rows, " rows for ", size, " ranks");
    return std::vector<std::size_t>(size, moved(tensor, tensor.numel() / size).count);
  }
  TORCH_CHECK_VALUE(splits.size() == static_cast<std::size_t>(size) &&
                        std::accumulate(splits.begin(), splits.end(), std::int64_t{0}) == rows,
                    "lanecast: all_to_all_single: Split sizes doesn't match total dim 0 size: ", argument, " has ",
                    rows, " rows for ", size, " ranks, its split sizes are ", splits);
  std::vector<std::size_t> counts;
  for (std::int64_t split : splits) {
    TORCH_CHECK_VALUE(split >= 0, "lanecast: all_to_all_single: ", argument, " has a negative split size, ", split);
    counts.push_back(rows == 0 ? 0 : moved(tensor, split * (tensor.numel() / rows)).count);
  }
  return counts;
}

lanecastCall_t call_for(const SideBySide& out, const SideBySide& in) {
  check_same_type("all_to_all", out.buffer(), in.buffer());
  lanecastCall_t call{};
  call.collective = lanecastCollAllToAll;
  call.sendbuff = in.data();
  call.recvbuff = out.data();
  call.datatype = moved(in.buffer()).dtype;
  return call;
}

std::vector<std::size_t> moved_counts(const SideBySide& tensors) {
  std::vector<std::size_t> counts;
  for (std::size_t count : tensors.counts()) counts.push_back(moved(tensors.buffer(), count).count);
  return counts;
}

}  // namespace

WorkPtr Backend::alltoall_base(at::Tensor& output, at::Tensor& input, Splits& output_splits, Splits& input_splits,
                               const c10d::AllToAllOptions& opts) {
  const Launch what{OpType::ALLTOALL_BASE, "lanecast:all_to_all", {input}, {output}, opts.asyncOp};
  return launch(what, [&](Work& work) {
    const SideBySide out("all_to_all_single", "output", {output});
    const SideBySide in("all_to_all_single", "input", {input}, Access::read);
    lanecastCall_t call = call_for(out, in);
    const std::vector<std::size_t> send_counts = counts_of("input", input, input_splits, getSize());
    const std::vector<std::size_t> recv_counts = counts_of("output", output, output_splits, getSize());
    if (output_splits.empty() && input_splits.empty()) {
      TORCH_CHECK_VALUE(output.numel() == input.numel(), "lanecast: all_to_all_single: the input has ", input.numel(),
                        " elements, the output ", output.numel(), "; without split sizes they are equal");
      call.count = send_counts[0];
    } else {
      call.counts = send_counts.data();
      call.recvcounts = recv_counts.data();
    }
    in.pack();
    work.keep(in.buffer());
    work.deliver(out);
    work.start(*engine_, call, opts.timeout);
  });
}

WorkPtr Backend::alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& opts) {
  check_one_for_each_rank("all_to_all", "outputs", {outputs});
  check_one_for_each_rank("all_to_all", "inputs", {inputs});
  return launch({OpType::ALLTOALL, "lanecast:all_to_all", inputs, outputs, opts.asyncOp}, [&](Work& work) {
    const SideBySide out("all_to_all", "outputs", outputs), in("all_to_all", "inputs", inputs, Access::read);
    lanecastCall_t call = call_for(out, in);
    const std::vector<std::size_t> send_counts = moved_counts(in), recv_counts = moved_counts(out);
    call.counts = send_counts.data();
    call.recvcounts = recv_counts.data();
    in.pack();
    work.keep(in.buffer());
    work.deliver(out);
    work.start(*engine_, call, opts.timeout);
  });
}

}  // namespace lanecast_torch
