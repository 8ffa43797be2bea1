"""Matrix products on the CPU by oneDNN, in full precision: on AMD's processors twice as fast as by MKL, torch's choice.

Types of 16 bits go to oneDNN anyway, and other devices have products of their own.
"""

from __future__ import annotations

import platform
from functools import cache
from typing import Any

from minrisk.neural.packages import package

WIDE = (("dense", "intermediate_act_fn"), ("wi_0", "act"))
"""What models of BERT's family and of T5's call their wide layer and what follows it."""

GELUS = {"GELUActivation": "none", "NewGELUActivation": "tanh"}
"""Activations that can be computed along with a layer, by their classes in transformers."""


def linear(inputs: Any, weight: Any, bias: Any = None, *, gelu: str | None = None) -> Any:
    """The product of inputs (..., a) and weight (b, a), plus bias (b,): (..., b).

    gelu  and this activation on it: "none", as it is, or "tanh", approximated
    """
    torch = package("torch")
    if inputs.device.type == "cpu" and inputs.dtype is weight.dtype is torch.float32 and available():
        return torch.ops.mkldnn._linear_pointwise(inputs, weight, bias, "gelu" if gelu else "none", [], gelu or "")
    product = torch.nn.functional.linear(inputs, weight, bias)
    return torch.nn.functional.gelu(product, approximate=gelu) if gelu else product


@cache
def available() -> bool:
    """Whether this torch has the operation that its compiler uses, and it gives what it should."""
    torch = package("torch")
    if platform.machine().lower() not in ("x86_64", "amd64"):
        return False
    try:
        left, right = torch.arange(6.0).view(3, 2), torch.arange(8.0).view(4, 2)
        with torch.inference_mode():
            product = torch.ops.mkldnn._linear_pointwise(left, right, None, "none", [], "")
        return bool(torch.equal(product, left @ right.T))
    except (AttributeError, RuntimeError):
        return False


def quickened(model: Any) -> Any:
    """The model, its linear layers going through `linear`, an activation right after one along with it."""
    torch = package("torch")
    for module in model.modules():
        if type(module) is torch.nn.Linear:
            module.__class__ = _linear_layer()
    for module in model.modules():
        for layer, activation in WIDE:
            gelu = GELUS.get(type(getattr(module, activation, None)).__name__)
            if gelu and hasattr(module, layer):
                getattr(module, layer).gelu = gelu
                setattr(module, activation, torch.nn.Identity())
    return model


@cache
def _linear_layer() -> Any:
    """The class of such layers; torch is known only when one is asked for."""

    class Linear(package("torch").nn.Linear):  # type: ignore[misc]
        gelu: str | None = None

        def forward(self, inputs: Any) -> Any:
            return linear(inputs, self.weight, self.bias, gelu=self.gelu)

    return Linear
