"""The paper's Table 1 and what it leaves open: how much of "low rank" is the mean, and how coherent the rest is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from minrisk.errors import InputError
from minrisk.study.files import made_folder, read_arrays, write_arrays, write_text
from minrisk.study.parallel import spread
from minrisk.study.store import Progress, Store
from minrisk.study.tables import FORMATS, Table
from minrisk.study.trials import draw_samples
from minrisk.types import BoolArray, FloatArray

SIZES = (64, 128)
RANKS = (1, 5, 10)
TURNS = 500
PARTS = {
    "raw": "as it is",
    "mean": "less its mean",
    "additive": "less row and column effects",
    "others": "the same, self-pairs left out",
}
"""What is decomposed; in the last, cells of a text with itself are set to what its row and column say."""


@dataclass(frozen=True, slots=True)
class Spectrum:
    """Averages over segments at one size.

    singular_values  of each part: (N,), zeros past the number of distinct texts
    effective_rank   of each part: exp of the entropy of the normalised singular values (Roy and Vetterli 2007)
    first_share      of each part: share of the first singular value in the sum of squares
    coherence        of each part: (len(RANKS), 2) of the row and the column space (Candes and Recht 2008)
    mean_share       share of the sum of squares of the matrix as it is that its mean alone makes up
    additive_share   share of the variance of the other pairs that row and column effects explain
    ratio            mean of sigma2 / sigma1 of the matrix as it is
    distinct         mean number of rows
    segments         how many
    """

    size: int
    singular_values: dict[str, FloatArray]
    effective_rank: dict[str, float]
    first_share: dict[str, float]
    coherence: dict[str, FloatArray]
    mean_share: float
    additive_share: float
    ratio: float
    distinct: float
    segments: int


def spectrum(
    store: Store,
    sizes: Sequence[int] = SIZES,
    *,
    seed: int = 0,
    keep_duplicates: bool = False,
    unit: float | None = None,
    workers: int | None = None,
    progress: Progress | None = None,
) -> list[Spectrum]:
    """Decompose the matrices of samples drawn from each segment's pool; values are divided by the unit."""
    if not sizes or min(sizes) < 2:
        raise InputError(f"`sizes` must be numbers of samples of at least 2, got {tuple(sizes)}")
    tasks = [
        (store.folder, number, size, seed, keep_duplicates, unit) for size in sizes for number in range(len(store.ids))
    ]
    found: dict[int, dict[str, FloatArray]] = {}
    for done, (task, arrays) in enumerate(spread(of_segment, tasks, workers), 1):
        found[task] = arrays
        if progress is not None:
            progress(done, len(tasks))
    count = len(store.ids)
    return [
        _averaged(size, [found[place * count + number] for number in range(count)]) for place, size in enumerate(sizes)
    ]


def of_segment(
    folder: Path, number: int, size: int, seed: int, keep_duplicates: bool, unit: float | None
) -> dict[str, FloatArray]:
    """What `Spectrum` averages, of one segment."""
    drawn = draw_samples(Store.open(folder).pool(number, unit=unit), size, seed, 0, keep_duplicates)
    own = drawn.rows[:, None] == drawn.rows
    found: dict[str, FloatArray] = {"distinct": np.array(float(len(drawn.rows)))}
    for name, matrix in parts(drawn.matrix, own).items():
        left, values, right = np.linalg.svd(matrix)
        padded = np.zeros(size)
        padded[: len(values)] = values
        found[f"values.{name}"] = padded
        found[f"effective.{name}"] = np.array(effective_rank(values))
        squares = float(np.square(values).sum())
        found[f"first.{name}"] = np.array(float(values[0] ** 2) / squares if squares > 0 else np.nan)
        spaces = [[coherence(left, rank), coherence(right.T, rank)] for rank in RANKS]
        found[f"coherence.{name}"] = np.array(spaces) if squares > 0 else np.full((len(RANKS), 2), np.nan)
    whole = float(np.square(drawn.matrix).mean())
    found["mean"] = np.array(float(drawn.matrix.mean()) ** 2 / whole if whole > 0 else np.nan)
    found["additive"] = np.array(additive_share(drawn.matrix, own))
    raw = found["values.raw"]
    found["ratio"] = np.array(raw[1] / raw[0] if raw[0] > 0 else np.nan)
    return found


def parts(matrix: FloatArray, own: BoolArray) -> dict[str, FloatArray]:
    """The matrix (N, N) and what is left of it without what is simple; `own` marks cells of a text with itself."""
    rows, columns = matrix.mean(axis=1, keepdims=True), matrix.mean(axis=0, keepdims=True)
    return {
        "raw": matrix,
        "mean": matrix - matrix.mean(),
        "additive": matrix - rows - columns + matrix.mean(),
        "others": np.where(own, 0.0, matrix - additive_fit(matrix, own)),
    }


def additive_fit(matrix: FloatArray, own: BoolArray) -> FloatArray:
    """Row plus column effects fitted to the cells that are not `own`: (N, N)."""
    if own.all():
        return np.full(matrix.shape, float(matrix.mean()))
    filled = np.where(own, matrix[~own].mean(), matrix)
    for _ in range(TURNS):
        fit = filled.mean(axis=1, keepdims=True) + filled.mean(axis=0, keepdims=True) - filled.mean()
        change = np.abs(fit[own] - filled[own]).max(initial=0.0)
        filled[own] = fit[own]
        if change < 1e-12:
            break
    return np.asarray(filled.mean(axis=1, keepdims=True) + filled.mean(axis=0, keepdims=True) - filled.mean())


def additive_share(matrix: FloatArray, own: BoolArray) -> float:
    """Share of the variance of the cells that are not `own` that their additive fit explains; NaN without any."""
    others = matrix[~own]
    if not len(others) or np.ptp(others) == 0:
        return float("nan")
    residuals = others - additive_fit(matrix, own)[~own]
    return float(1 - np.square(residuals).sum() / np.square(others - others.mean()).sum())


def effective_rank(values: FloatArray) -> float:
    """Exp of the entropy of singular values as shares of their sum; 0 for a matrix of zeros."""
    shares = values[values > 1e-12 * max(values.max(initial=0.0), 1e-300)]
    if not len(shares):
        return 0.0
    shares = shares / shares.sum()
    return float(np.exp(-(shares * np.log(shares)).sum()))


def coherence(vectors: FloatArray, rank: int) -> float:
    """N / r max_i |P e_i|^2, P projecting on the first r of orthonormal columns: 1 if spread evenly, N / r at worst."""
    rank = min(rank, vectors.shape[1])
    return float(len(vectors) / rank * np.square(vectors[:, :rank]).sum(axis=1).max())


def _averaged(size: int, found: list[dict[str, FloatArray]]) -> Spectrum:
    def mean(name: str) -> FloatArray:
        values = np.array([of[name] for of in found])
        defined = ~np.isnan(values.reshape(len(values), -1)).any(axis=1)
        return np.asarray(values[defined].mean(axis=0)) if defined.any() else np.full(values.shape[1:], np.nan)

    return Spectrum(
        size=size,
        singular_values={part: mean(f"values.{part}") for part in PARTS},
        effective_rank={part: float(mean(f"effective.{part}")) for part in PARTS},
        first_share={part: float(mean(f"first.{part}")) for part in PARTS},
        coherence={part: mean(f"coherence.{part}") for part in PARTS},
        mean_share=float(mean("mean")),
        additive_share=float(mean("additive")),
        ratio=float(mean("ratio")),
        distinct=float(mean("distinct")),
        segments=len(found),
    )


def write_spectra(spectra: Sequence[Spectrum], folder: str | Path, label: str) -> list[Path]:
    """The spectra as records, and tables of them; `label` names the utility."""
    target = made_folder(folder)
    write_arrays(target / "spectra.npz", _as_arrays(spectra, label))
    written = [target / "spectra.npz"]
    for name, table in (("singular-values", first_values(spectra, label)), ("spectra", details(spectra, label))):
        for suffix, write in FORMATS.items():
            written.append(target / f"{name}.{suffix}")
            write_text(written[-1], write(table))
    return written


def first_values(spectra: Sequence[Spectrum], label: str) -> Table:
    """The paper's Table 1: the first three singular values at each size."""
    cells = [(f"{value:.2f}", False) for one in spectra for value in one.singular_values["raw"][:3]]
    caption = f"First singular values, mean over {spectra[0].segments} segments; values as a share of a perfect score."
    head = [f"{one.size}x{one.size}" for one in spectra]
    return Table(caption, head, ["σ1", "σ2", "σ3"], [("", [(label, cells)])])


def details(spectra: Sequence[Spectrum], label: str) -> Table:
    """For each part of the matrix: singular values, effective rank, what the first explains, coherence."""
    blocks = []
    for one in spectra:
        rows = []
        for part, name in PARTS.items():
            cells = [f"{value:.2f}" for value in one.singular_values[part][:3]]
            cells += [f"{one.effective_rank[part]:.1f}", f"{100 * one.first_share[part]:.1f} %"]
            cells += [f"{rows_of:.2f} / {columns_of:.2f}" for rows_of, columns_of in one.coherence[part]]
            rows.append((name, [(cell, False) for cell in cells]))
        blocks.append((f"N={one.size}", rows))
    caption = (
        f"{label}: mean over {spectra[0].segments} segments. Coherence is of the row / column space; it lies between 1 "
        "(spread evenly) and N / r. "
        + " ".join(
            f"N={one.size}: {one.distinct:.1f} rows on average; the mean alone makes up "
            f"{100 * one.mean_share:.1f} % of the sum of squares; row and column effects explain "
            f"{100 * one.additive_share:.0f} % of the variance of the pairs that are no self-pairs; "
            f"mean σ2/σ1 = {one.ratio:.3f}."
            for one in spectra
        )
    )
    head = ["σ1", "σ2", "σ3", "effective rank", "σ1² share", *(f"coherence, r={rank}" for rank in RANKS)]
    return Table(caption, head, [""], blocks)


def _as_arrays(spectra: Sequence[Spectrum], label: str) -> dict[str, np.ndarray[Any, Any]]:
    arrays: dict[str, np.ndarray[Any, Any]] = {"label": np.array(label)}
    for one in spectra:
        for part in PARTS:
            arrays[f"{one.size}.{part}"] = one.singular_values[part]
    return arrays


def read_spectra(folder: str | Path) -> tuple[str, dict[int, dict[str, FloatArray]]]:
    """The label, and for each size the mean singular values of each part, as `write_spectra` left them."""
    arrays = read_arrays(Path(folder) / "spectra.npz")
    label = str(arrays.pop("label"))
    found: dict[int, dict[str, FloatArray]] = {}
    for name, values in arrays.items():
        size, _, part = name.partition(".")
        found.setdefault(int(size), {})[part] = values
    return label, found
