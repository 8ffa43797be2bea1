"""Matrix products on the CPU by oneDNN, in full precision: on AMD's processors twice as fast as by MKL, torch's choice.

Types of 16 bits go to oneDNN anyway, and other devices have products of their own.
"""

from __future__ import annotations

import platform
from functools import cache
from typing import Any

from minrisk.neural.packages import package


def linear(inputs: Any, weight: Any, bias: Any = None, *, gelu: bool = False) -> Any:
    """The product of inputs (..., a) and weight (b, a), plus bias (b,): (..., b); `gelu`: and the activation on it."""
    torch = package("torch")
    if inputs.device.type == "cpu" and inputs.dtype is weight.dtype is torch.float32 and available():
        then, how = ("gelu", "none") if gelu else ("none", "")
        return torch.ops.mkldnn._linear_pointwise(inputs, weight, bias, then, [], how)
    product = torch.nn.functional.linear(inputs, weight, bias)
    return torch.nn.functional.gelu(product) if gelu else product


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
        # What models of BERT's family call their wide layer and what follows it.
        if type(getattr(module, "intermediate_act_fn", None)).__name__ == "GELUActivation":
            module.dense.gelu, module.intermediate_act_fn = True, torch.nn.Identity()
    return model


@cache
def _linear_layer() -> Any:
    """The class of such layers; torch is known only when one is asked for."""

    class Linear(package("torch").nn.Linear):  # type: ignore[misc]
        gelu = False

        def forward(self, inputs: Any) -> Any:
            return linear(inputs, self.weight, self.bias, gelu=self.gelu)

    return Linear
