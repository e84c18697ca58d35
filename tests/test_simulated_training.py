# SPDX-License-Identifier: Apache-2.0
"""Steps of training: what hides what, where one of the two is nothing, and where both are."""

from __future__ import annotations

import pytest

from lanecast.scale.training import MODELS, ddp_s, zero3_s


@pytest.mark.parametrize("layers", [1, 3, 32])
def test_a_step_is_its_computing_where_collectives_are_nothing(layers: int) -> None:
    assert zero3_s(layers, 2.0, 0.0, 0.0) == pytest.approx(6.0)
    assert ddp_s(layers, 2.0, 0.0) == pytest.approx(6.0)


@pytest.mark.parametrize("layers", [1, 3, 32])
def test_a_step_is_its_collectives_where_computing_is_nothing(layers: int) -> None:
    """Each layer's weights are gathered forwards and back, but for the last one's, which are still there."""
    assert zero3_s(layers, 0.0, 0.5, 0.25) == pytest.approx(0.5 * (2 * layers - 1) + 0.25 * layers)
    assert ddp_s(layers, 0.0, 0.5) == pytest.approx(0.5 * layers)


def test_what_computing_hides_is_all_but_the_first_gather_and_the_last_scatter() -> None:
    assert zero3_s(8, 8.0, 0.5, 0.25) == pytest.approx(24 + 0.5 + 0.25)
    assert ddp_s(4, 4.0, 0.5) == pytest.approx(12 + 0.5)


def test_models_send_what_pccl_says() -> None:
    """II-A: messages of tens to hundreds of megabytes; 4 bytes of gradients for each parameter, in 48 to 80 MB."""
    sizes = {model.name: model.layer_bytes / 1e6 for model in MODELS if model.framework == "zero3"}
    assert sizes["GPT-7B"] == pytest.approx(403, rel=0.01)
    assert sizes["GPT-13B"] == pytest.approx(629, rel=0.01)
    assert next(model.buckets for model in MODELS if model.framework == "ddp") == 78
