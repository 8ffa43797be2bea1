"""Completing a partly observed matrix, by a choice of algorithms.

Every algorithm is a function `algorithm(observed, rng, *, its options) -> Completion`; ALGORITHMS names them all.
"""

from __future__ import annotations

import inspect
import numbers
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache

import numpy as np
from numpy.typing import ArrayLike

from minrisk.errors import InputError, unknown_name
from minrisk.numeric.additive import additive
from minrisk.numeric.als import als
from minrisk.numeric.biased import biased
from minrisk.numeric.bpmf import bpmf
from minrisk.numeric.mmmf import mmmf
from minrisk.numeric.soft_impute import soft_impute
from minrisk.numeric.sparse import Completion, Observed, observe
from minrisk.numeric.svt import svt
from minrisk.numeric.symmetry import reflected
from minrisk.types import FloatArray

__all__ = ["ALGORITHMS", "Completion", "Observed", "complete", "complete_many", "completion", "observe"]

ALGORITHMS: dict[str, Callable[..., Completion]] = {
    "additive": additive,
    "als": als,
    "biased": biased,
    "bpmf": bpmf,
    "mmmf": mmmf,
    "soft-impute": soft_impute,
    "svt": svt,
}


def complete(
    values: ArrayLike,
    rows: ArrayLike,
    columns: ArrayLike,
    shape: Sequence[int],
    algorithm: str = "als",
    *,
    weights: ArrayLike | None = None,
    scaled: bool = True,
    keep_observed: bool = True,
    mirrored: bool = False,
    seed: int = 0,
    **options: float,
) -> FloatArray:
    """The (N, K) matrix of which C cells are known, completed.

    values, rows, columns   (C,) what was measured, and where; no cell twice
    shape                   (N, K)
    algorithm               a name in ALGORITHMS
    weights                 (C,) how much each cell counts in the fit; all the same if not given
    scaled                  fit the values divided by their root mean square, so that u and 100 u are completed alike;
                            without it, options such as `regularization` meet the raw values, as in the paper
    keep_observed           leave the known cells as they were measured; else the model's prediction stands everywhere
    mirrored                fit (j, i) to the value of (i, j) too, where only that is known, with a weight that follows
                            from how symmetric the known cells are; for square matrices
    seed                    of the algorithm's random start
    options                 of the algorithm: `rank=10, regularization=0.1, iterations=30` for "als"
    """
    observed = observe(values, rows, columns, shape, weights)
    return completion(
        observed, algorithm, seed, scaled=scaled, keep_observed=keep_observed, mirrored=mirrored, **options
    ).matrix


def completion(
    observed: Observed,
    algorithm: str = "als",
    seed: int | np.random.Generator = 0,
    *,
    scaled: bool = True,
    keep_observed: bool = True,
    mirrored: bool = False,
    **options: float,
) -> Completion:
    """`complete`, with how the result came about; the objective is that of the values as they were fitted."""
    chosen = _configured(algorithm, options)
    try:
        rng = np.random.default_rng(seed)
    except (TypeError, ValueError) as error:
        raise InputError(f"`seed` must be a whole number of at least 0 or a NumPy generator, got {seed!r}") from error
    if not len(observed):
        raise InputError("a matrix of which no cell is known cannot be completed; give at least one value")
    scale = _root_mean_square(observed.values) if scaled else 1.0
    fitted = reflected(observed) if mirrored else observed
    result = chosen(fitted.with_values(fitted.values / scale), rng, **options)
    matrix = result.matrix * scale
    uncertainty = None if result.uncertainty is None else result.uncertainty * scale
    if keep_observed:
        matrix[observed.rows, observed.columns] = observed.values
        if uncertainty is not None:
            uncertainty[observed.rows, observed.columns] = 0.0
    return replace(result, matrix=matrix, uncertainty=uncertainty)


def complete_many(
    problems: Sequence[Observed],
    seeds: Sequence[int | np.random.Generator],
    algorithm: str = "als",
    *,
    threads: int | None = None,
    scaled: bool = True,
    keep_observed: bool = True,
    mirrored: bool = False,
    **options: float,
) -> list[Completion]:
    """`completion` of every problem with the seed beside it, in threads: the results are those of one by one."""
    if len(seeds) != len(problems):
        raise InputError(f"`seeds` must hold {len(problems)} seeds, one for each problem, got {len(seeds)}")
    _configured(algorithm, options)

    def one(observed: Observed, seed: int | np.random.Generator) -> Completion:
        return completion(
            observed, algorithm, seed, scaled=scaled, keep_observed=keep_observed, mirrored=mirrored, **options
        )

    workers = min(threads or os.cpu_count() or 1, max(len(problems), 1))
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(one, problems, seeds))


def _configured(algorithm: str, options: dict[str, float]) -> Callable[..., Completion]:
    if algorithm not in ALGORITHMS:
        raise unknown_name("completion algorithm", algorithm, ALGORITHMS)
    chosen = ALGORITHMS[algorithm]
    known = _options_of(chosen)
    for option, value in options.items():
        if option not in known:
            raise unknown_name(f"option of completion algorithm {algorithm!r}:", option, known)
        if not isinstance(value, numbers.Real):
            raise InputError(f"`{option}` must be a number, got {value!r}")
    return chosen


@cache
def _options_of(algorithm: Callable[..., Completion]) -> list[str]:
    return [name for name in inspect.signature(algorithm).parameters if name not in ("observed", "rng")]


def _root_mean_square(values: FloatArray) -> float:
    """Of the values; 1 where all are zero, which any scale leaves as they are."""
    largest = float(np.abs(values).max())
    if largest == 0.0:
        return 1.0
    return largest * float(np.sqrt(np.mean(np.square(values / largest))))
