// SPDX-License-Identifier: Apache-2.0
// What moves without being reduced: broadcast, scatter, gather, all-gather.
#include <utility>

#include "backend.h"
#include "types.h"

namespace lanecast_torch {
namespace {

/// Sends each rank's part of `in`, receives into `out`; either may be null.
lanecastCall_t call_for(lanecastCollective_t collective, const SideBySide* in, const SideBySide* out,
                        const Elements& elements) {
  lanecastCall_t call{};
  call.collective = collective;
  call.sendbuff = in ? in->data() : nullptr;
  call.recvbuff = out ? out->data() : nullptr;
  call.count = elements.count;
  call.datatype = elements.dtype;
  return call;
}

}  // namespace

WorkPtr Backend::broadcast(Tensors& tensors, const c10d::BroadcastOptions& opts) {
  const at::Tensor& tensor = only("broadcast", "tensors", tensors);
  check_root("broadcast", opts.rootRank);
  return launch({OpType::BROADCAST, "lanecast:broadcast", tensors, tensors, opts.asyncOp}, [&](Work& work) {
    const bool is_root = opts.rootRank == getRank();
    const SideBySide vector("broadcast", "tensor", {tensor}, is_root ? Access::read : Access::write);
    lanecastCall_t call = call_for(lanecastCollBroadcast, &vector, &vector, moved(vector.buffer()));
    call.root = static_cast<int>(opts.rootRank);
    if (is_root) {
      vector.pack();
      work.keep(vector.buffer());
    } else {
      work.deliver(vector);
    }
    work.start(*engine_, call, opts.timeout);
  });
}

WorkPtr Backend::scatter(Tensors& outputs, TensorLists& inputs, const c10d::ScatterOptions& opts) {
  const at::Tensor& output = only("scatter", "outputs", outputs);
  check_root("scatter", opts.rootRank);
  const bool is_root = opts.rootRank == getRank();
  TORCH_CHECK_VALUE(is_root || inputs.empty(), "lanecast: scatter: only the root, rank ", opts.rootRank,
                    ", has inputs");
  if (is_root) check_one_for_each_rank("scatter", "inputs", inputs);
  const Launch what{OpType::SCATTER, "lanecast:scatter", is_root ? inputs[0] : Tensors(), outputs, opts.asyncOp};
  return launch(what, [&](Work& work) {
    const SideBySide share("scatter", "output", {output});
    lanecastCall_t call = call_for(lanecastCollScatter, nullptr, &share, moved(share.buffer()));
    call.root = static_cast<int>(opts.rootRank);
    if (is_root) {
      const SideBySide shares("scatter", "inputs", inputs[0], Access::read);
      check_same_type("scatter", share.buffer(), shares.buffer());
      check_even("scatter", "inputs", shares, share.counts()[0]);
      shares.pack();
      work.keep(shares.buffer());
      call.sendbuff = shares.data();
    }
    work.deliver(share);
    work.start(*engine_, call, opts.timeout);
  });
}

WorkPtr Backend::gather(TensorLists& outputs, Tensors& inputs, const c10d::GatherOptions& opts) {
  const at::Tensor& input = only("gather", "inputs", inputs);
  check_root("gather", opts.rootRank);
  const bool is_root = opts.rootRank == getRank();
  TORCH_CHECK_VALUE(is_root || outputs.empty(), "lanecast: gather: only the root, rank ", opts.rootRank,
                    ", has outputs");
  if (is_root) check_one_for_each_rank("gather", "outputs", outputs);
  const Launch what{OpType::GATHER, "lanecast:gather", inputs, is_root ? outputs[0] : Tensors(), opts.asyncOp};
  return launch(what, [&](Work& work) {
    const SideBySide share("gather", "input", {input}, Access::read);
    share.pack();
    lanecastCall_t call = call_for(lanecastCollGather, &share, nullptr, moved(share.buffer()));
    call.root = static_cast<int>(opts.rootRank);
    work.keep(share.buffer());
    if (is_root) {
      const SideBySide shares("gather", "outputs", outputs[0]);
      check_same_type("gather", shares.buffer(), share.buffer());
      check_even("gather", "outputs", shares, share.counts()[0]);
      work.deliver(shares);
      call.recvbuff = shares.data();
    }
    work.start(*engine_, call, opts.timeout);
  });
}

void Backend::start_all_gather(Work& work, const SideBySide& shares, const at::Tensor& input,
                               const c10d::AllgatherOptions& opts) {
  const SideBySide share("all_gather", "input", {input}, Access::read);
  check_same_type("all_gather", shares.buffer(), input);
  share.pack();
  lanecastCall_t call = call_for(lanecastCollAllGather, &share, &shares, moved(share.buffer()));
  std::vector<std::size_t> counts;
  for (std::size_t count : shares.counts()) counts.push_back(moved(input, count).count);
  if (!shares.even()) call.counts = counts.data();
  work.keep(share.buffer());
  work.deliver(shares);
  work.start(*engine_, call, opts.timeout);
}

WorkPtr Backend::allgather(TensorLists& outputs, Tensors& inputs, const c10d::AllgatherOptions& opts) {
  const at::Tensor& input = only("all_gather", "inputs", inputs);
  check_one_for_each_rank("all_gather", "outputs", outputs);
  TORCH_CHECK_VALUE(outputs[0][getRank()].numel() == input.numel(), "lanecast: all_gather: this rank's input has ",
                    input.numel(), " elements, the output for it ", outputs[0][getRank()].numel());
  return launch({OpType::ALLGATHER, "lanecast:all_gather", inputs, outputs[0], opts.asyncOp}, [&](Work& work) {
    start_all_gather(work, SideBySide("all_gather", "outputs", outputs[0]), input, opts);
  });
}

WorkPtr Backend::allgather_coalesced(TensorLists& outputs, Tensors& inputs, const c10d::AllgatherOptions& opts) {
  check_one_for_each_rank("all_gather_coalesced", "outputs", {Tensors(outputs.size())});
  Tensors all;
  for (const Tensors& of_rank : outputs) {
    TORCH_CHECK_VALUE(of_rank.size() == inputs.size(), "lanecast: all_gather_coalesced: ", of_rank.size(),
                      " outputs for ", inputs.size(), " inputs");
    all.insert(all.end(), of_rank.begin(), of_rank.end());
  }
  return launch({OpType::ALLGATHER_COALESCED, "lanecast:all_gather", inputs, all, opts.asyncOp}, [&](Work& work) {
    for (std::size_t k = 0; k < inputs.size(); ++k) {
      Tensors of_input;
      for (const Tensors& of_rank : outputs) of_input.push_back(of_rank[k]);
      start_all_gather(work, SideBySide("all_gather_coalesced", "outputs", of_input), inputs[k], opts);
    }
  });
}

void Backend::start_all_gather(Work& work, const at::Tensor& output, const at::Tensor& input,
                               const c10d::AllgatherOptions& opts) {
  TORCH_CHECK_VALUE(output.numel() == input.numel() * getSize(), "lanecast: all_gather_into_tensor: the output has ",
                    output.numel(), " elements, expected ", getSize(), " times the input's ", input.numel());
  start_all_gather(work, SideBySide("all_gather_into_tensor", "output", {output}), input, opts);
}

WorkPtr Backend::_allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& opts) {
  return launch({OpType::_ALLGATHER_BASE, "lanecast:_all_gather_base", {input}, {output}, opts.asyncOp},
                [&](Work& work) { start_all_gather(work, output, input, opts); });
}

WorkPtr Backend::allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                 const c10d::AllgatherOptions& opts) {
  TORCH_CHECK_VALUE(outputs.size() == inputs.size(), "lanecast: all_gather_into_tensor_coalesced: ", outputs.size(),
                    " outputs for ", inputs.size(), " inputs");
  return launch({OpType::COALESCED, "lanecast:all_gather_into_tensor_coalesced", inputs, outputs, opts.asyncOp},
                [&](Work& work) {
                  for (std::size_t k = 0; k < outputs.size(); ++k) start_all_gather(work, outputs[k], inputs[k], opts);
                });
}

}  // namespace lanecast_torch
