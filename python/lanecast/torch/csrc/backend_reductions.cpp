// SPDX-License-Identifier: Apache-2.0
// All-reduce, reduce and reduce-scatter.
#include "backend.h"
#include "integer_averages.h"
#include "types.h"

namespace lanecast_torch {
namespace {

lanecastCall_t call_for(lanecastCollective_t collective, const Reduction& reduction, const at::Tensor& output) {
  lanecastCall_t call{};
  call.collective = collective;
  call.sendbuff = reduction.from.data_ptr();
  call.recvbuff = output.data_ptr();
  call.count = static_cast<std::size_t>(output.numel()) * reduction.per_element;
  call.datatype = reduction.dtype;
  call.op = reduction.op;
  return call;
}

}  // namespace

void Backend::start_reduction(Work& work, lanecastCall_t call, const Reduction& what, const SideBySide* arrived,
                              std::chrono::milliseconds timeout) {
  work.keep(what.from);
  if (!what.averages_integers) {
    if (arrived) work.deliver(*arrived);
    return work.start(*engine_, call, timeout);
  }
  const int ranks = getSize();
  const std::vector<at::Tensor> parts = summands(what.from, ranks);
  std::vector<at::Tensor> sums;
  if (arrived) {
    for (const at::Tensor& part : parts) sums.push_back(at::empty(arrived->buffer().sizes(), part.options()));
    work.on_arrival([mean = arrived->buffer(), sums, ranks] { mean.copy_(mean_of(sums, ranks)); });
    work.deliver(*arrived);
  }
  call.datatype = lanecastInt64;
  for (std::size_t k = 0; k < parts.size(); ++k) {
    work.keep(parts[k]);
    call.sendbuff = parts[k].data_ptr();
    call.recvbuff = arrived ? sums[k].data_ptr() : nullptr;
    work.start(*engine_, call, timeout);
  }
}

void Backend::start_all_reduce(Work& work, const at::Tensor& tensor, const c10d::AllreduceOptions& opts) {
  const SideBySide vector("all_reduce", "tensor", {tensor});
  vector.pack();
  const Reduction what = reduction("all_reduce", vector.buffer(), opts.reduceOp);
  start_reduction(work, call_for(lanecastCollAllReduce, what, vector.buffer()), what, &vector, opts.timeout);
}

c10d::Backend& Backend::understudy(const std::string& name) {
  return *understudies_.get(
      name, [&] { return helpers_.make_understudy(name, store_, getRank(), getSize(), options_->timeout); });
}

WorkPtr Backend::allreduce(Tensors& tensors, const c10d::AllreduceOptions& opts) {
  const at::Tensor& tensor = only("all_reduce", "tensors", tensors);
  if (tensor.is_sparse()) return keep_if_coalescing(understudy("gloo").allreduce(tensors, opts));
  return launch({OpType::ALLREDUCE, "lanecast:all_reduce", tensors, tensors, opts.asyncOp},
                [&](Work& work) { start_all_reduce(work, tensor, opts); });
}

WorkPtr Backend::allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& opts) {
  return keep_if_coalescing(understudy("gloo").allreduce(tensors, opts));
}

WorkPtr Backend::allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& opts) {
  TORCH_CHECK_VALUE(!tensors.empty(), "lanecast: all_reduce_coalesced: the list of tensors is empty");
  return launch({OpType::ALLREDUCE_COALESCED, "lanecast:all_reduce", tensors, tensors, opts.asyncOp}, [&](Work& work) {
    for (const at::Tensor& tensor : tensors) start_all_reduce(work, tensor, opts);
  });
}

WorkPtr Backend::reduce(Tensors& tensors, const c10d::ReduceOptions& opts) {
  const at::Tensor& tensor = only("reduce", "tensors", tensors);
  check_root("reduce", opts.rootRank);
  return launch({OpType::REDUCE, "lanecast:reduce", tensors, tensors, opts.asyncOp}, [&](Work& work) {
    const SideBySide vector("reduce", "tensor", {tensor});
    vector.pack();
    const Reduction what = reduction("reduce", vector.buffer(), opts.reduceOp);
    lanecastCall_t call = call_for(lanecastCollReduce, what, vector.buffer());
    call.root = static_cast<int>(opts.rootRank);
    const bool is_root = call.root == getRank();
    if (!is_root) call.recvbuff = nullptr;
    start_reduction(work, call, what, is_root ? &vector : nullptr, opts.timeout);
  });
}

void Backend::start_reduce_scatter(Work& work, const at::Tensor& output, const SideBySide& shares,
                                   const c10d::ReduceScatterOptions& opts) {
  const SideBySide share("reduce_scatter", "output", {output});
  check_same_type("reduce_scatter", output, shares.buffer());
  shares.pack();
  const Reduction what = reduction("reduce_scatter", shares.whole(), opts.reduceOp);
  lanecastCall_t call = call_for(lanecastCollReduceScatter, what, output);
  call.recvbuff = share.data();
  std::vector<std::size_t> counts = shares.counts();
  for (std::size_t& count : counts) count *= what.per_element;
  if (!shares.even()) call.counts = counts.data();
  start_reduction(work, call, what, &share, opts.timeout);
}

void Backend::start_reduce_scatter(Work& work, const at::Tensor& output, const at::Tensor& input,
                                   const c10d::ReduceScatterOptions& opts) {
  TORCH_CHECK_VALUE(input.numel() == output.numel() * getSize(), "lanecast: reduce_scatter_tensor: the input has ",
                    input.numel(), " elements, expected ", getSize(), " times the output's ", output.numel());
  start_reduce_scatter(work, output, SideBySide("reduce_scatter_tensor", "input", {input}, Access::read), opts);
}

WorkPtr Backend::_reduce_scatter_base(at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions& opts) {
  return launch({OpType::_REDUCE_SCATTER_BASE, "lanecast:_reduce_scatter_base", {input}, {output}, opts.asyncOp},
                [&](Work& work) { start_reduce_scatter(work, output, input, opts); });
}

WorkPtr Backend::reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                 const c10d::ReduceScatterOptions& opts) {
  TORCH_CHECK_VALUE(outputs.size() == inputs.size(), "lanecast: reduce_scatter_tensor_coalesced: ", outputs.size(),
                    " outputs for ", inputs.size(), " inputs");
  return launch({OpType::COALESCED, "lanecast:reduce_scatter_tensor_coalesced", inputs, outputs, opts.asyncOp},
                [&](Work& work) {
                  for (std::size_t k = 0; k < outputs.size(); ++k)
                    start_reduce_scatter(work, outputs[k], inputs[k], opts);
                });
}

WorkPtr Backend::reduce_scatter(Tensors& outputs, TensorLists& inputs, const c10d::ReduceScatterOptions& opts) {
  const at::Tensor& output = only("reduce_scatter", "outputs", outputs);
  check_one_for_each_rank("reduce_scatter", "inputs", inputs);
  TORCH_CHECK_VALUE(inputs[0][getRank()].numel() == output.numel(), "lanecast: reduce_scatter: this rank's input has ",
                    inputs[0][getRank()].numel(), " elements, its output ", output.numel());
  return launch({OpType::REDUCE_SCATTER, "lanecast:reduce_scatter", inputs[0], outputs, opts.asyncOp}, [&](Work& work) {
    start_reduce_scatter(work, output, SideBySide("reduce_scatter", "inputs", inputs[0], Access::read), opts);
  });
}

}  // namespace lanecast_torch
