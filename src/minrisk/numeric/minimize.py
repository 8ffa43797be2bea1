"""A minimiser for smooth functions of many variables: L-BFGS."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import numpy as np

from minrisk.types import FloatArray

_MEMORY = 10
_SUFFICIENT = 1e-4
_SMALLEST_STEP = 1e-12

Function = Callable[[FloatArray], tuple[float, FloatArray]]
Pair = tuple[FloatArray, FloatArray, float]


def minimized(
    function: Function, start: FloatArray, iterations: int, tolerance: float
) -> tuple[FloatArray, float, int, bool]:
    """The point reached from `start`, its value, the iterations done, and whether the value came to rest.

    It comes to rest once an iteration lowers the value by at most `tolerance` times the value.
    """
    point = start
    value, gradient = function(point)
    pairs: deque[Pair] = deque(maxlen=_MEMORY)
    for iteration in range(1, iterations + 1):
        direction = -_preconditioned(gradient, pairs)
        slope = float(direction @ gradient)
        if slope >= 0.0:
            pairs.clear()
            direction, slope = -gradient, -float(gradient @ gradient)
        step = 1.0 if pairs else 1.0 / max(1.0, float(np.linalg.norm(gradient)))
        while True:
            following = point + step * direction
            new_value, new_gradient = function(following)
            if new_value <= value + _SUFFICIENT * step * slope:
                break
            step /= 2
            if step < _SMALLEST_STEP:
                return point, value, iteration, True
        change, turn = following - point, new_gradient - gradient
        curvature = float(change @ turn)
        if curvature > 0.0:
            pairs.append((change, turn, 1.0 / curvature))
        fall = value - new_value
        point, value, gradient = following, new_value, new_gradient
        if fall <= tolerance * value:
            return point, value, iteration, True
    return point, value, iterations, False


def _preconditioned(gradient: FloatArray, pairs: deque[Pair]) -> FloatArray:
    """The inverse Hessian, as the last changes of point and gradient show it, times the gradient."""
    vector = gradient.copy()
    shares = []
    for change, turn, inverse in reversed(pairs):
        share = inverse * float(change @ vector)
        vector -= share * turn
        shares.append(share)
    if pairs:
        _, turn, inverse = pairs[-1]
        vector /= inverse * float(turn @ turn)
    for (change, turn, inverse), share in zip(pairs, reversed(shares)):
        vector += (share - inverse * float(turn @ vector)) * change
    return vector
