# SPDX-License-Identifier: Apache-2.0
"""A GPT in plain PyTorch, and its sizes."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F


@dataclass(frozen=True)
class Shape:
    layers: int
    width: int
    heads: int
    sequence: int  # tokens
    batch_tokens: int  # of all ranks together, in a step
    vocabulary: int = 50304  # GPT-2's, rounded up; a text of bytes uses 256 of it


# The papers' models: PCCL's table of GPTs, with the batches of its strong scaling; and small ones for small machines.
PRESETS = {
    "gpt-2m": Shape(3, 256, 4, 128, 2048, 256),
    "gpt-25m": Shape(8, 512, 8, 256, 8192, 256),
    "gpt-124m": Shape(12, 768, 12, 1024, 1 << 15),
    "gpt-1.3b": Shape(24, 2048, 32, 2048, 1 << 20),
    "gpt-7b": Shape(32, 4096, 32, 2048, 1 << 22),
    "gpt-13b": Shape(40, 5120, 40, 2048, 1 << 22),
}


class Block(nn.Module):  # type: ignore[misc]
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        width = shape.width
        self.heads = shape.heads
        self.norm_attention, self.norm_mlp = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.grow, self.shrink = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, tokens, width = x.shape
        qkv = self.qkv(self.norm_attention(x)).view(batch, tokens, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.project(attended.transpose(1, 2).reshape(batch, tokens, width))
        return x + self.shrink(F.gelu(self.grow(self.norm_mlp(x))))


class GPT(nn.Module):  # type: ignore[misc]
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.tokens = nn.Embedding(shape.vocabulary, shape.width)
        self.places = nn.Embedding(shape.sequence, shape.width)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.norm = nn.LayerNorm(shape.width)
        self.head = nn.Linear(shape.width, shape.vocabulary, bias=False)

    def initialize(self) -> None:
        """GPT-2's weights at the start; after a sharded model has got its memory as well."""
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                nn.init.normal_(module.weight, std=0.02)
            if isinstance(module, nn.Linear) and module.bias is not None:
                nn.init.zeros_(module.bias)
            if isinstance(module, nn.LayerNorm):
                module.reset_parameters()

    def forward(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Mean cross entropy of the next tokens."""
        x = self.tokens(tokens) + self.places(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1).float(), targets.flatten())
