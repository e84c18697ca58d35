# SPDX-License-Identifier: Apache-2.0
"""A training step from the times of its collectives and of its computing, which overlap as frameworks have it."""

from __future__ import annotations

from dataclasses import dataclass

_WEIGHTS_OF_A_LAYER = 12  # times the square of the width: attention four, the perceptron eight
_WEIGHT_BYTES, _GRADIENT_BYTES = 2, 4  # of ZeRO-3 in half precision, and of DDP in single
BUCKET_BYTES = 64 << 20  # PCCL, II-A: DDP's all-reduces are of 48 to 80 MB


@dataclass(frozen=True)
class Model:
    """A transformer, and how it is trained. PCCL, Table II and section V."""

    name: str
    framework: str  # zero3 or ddp
    parameters: float
    layers: int
    width: int
    tokens: int  # of a batch, over all GPUs

    @property
    def layer_bytes(self) -> int:
        """What ZeRO-3 gathers, and scatters, of one layer."""
        return _WEIGHTS_OF_A_LAYER * self.width * self.width * _WEIGHT_BYTES

    @property
    def buckets(self) -> int:
        """In which DDP reduces the gradients."""
        return -(-int(self.parameters * _GRADIENT_BYTES) // BUCKET_BYTES)

    def forward_s(self, gpus: int, flops: float) -> float:
        """Of one GPU, which computes so many operations a second; the way back takes twice as long."""
        return 2 * self.parameters * self.tokens / gpus / flops


MODELS = (
    Model("GPT-7B", "zero3", 7e9, 32, 4096, 4 << 20),
    Model("GPT-13B", "zero3", 13e9, 40, 5120, 4 << 20),
    Model("GPT-1.3B", "ddp", 1.3e9, 24, 2048, 1 << 20),
)


def zero3_s(layers: int, forward_s: float, gather_s: float, scatter_s: float) -> float:
    """A step; forward_s: of all layers. Collectives go one after the other. The next layer's weights are gathered while
    a layer computes, and its gradients scattered when it is done.
    """
    forward, back = forward_s / layers, 2 * forward_s / layers
    wires = ready = gather_s
    computed = 0.0
    for layer in range(layers):
        begin = max(computed, ready)
        if layer + 1 < layers:
            wires = ready = max(wires, begin) + gather_s
        computed = begin + forward
    for layer in range(layers):  # the last one's weights are still there
        begin = max(computed, ready)
        if layer + 1 < layers:
            wires = ready = max(wires, begin) + gather_s
        computed = begin + back
        wires = max(wires, computed) + scatter_s
    return max(wires, computed)


def ddp_s(buckets: int, forward_s: float, reduce_s: float) -> float:
    """A step: a bucket is reduced when its gradients are there, while those of the next are computed."""
    wires = 0.0
    for bucket in range(1, buckets + 1):
        wires = max(wires, forward_s + 2 * forward_s * bucket / buckets) + reduce_s
    return wires
