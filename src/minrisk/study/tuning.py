"""The paper's grid search for PMBR's rank, regularization and iterations, with its rank loss, on held-out segments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, cast

import numpy as np

from minrisk.budgets import Budget, calls_allowed
from minrisk.decoding import method as configured
from minrisk.errors import InputError
from minrisk.methods.pmbr import Pmbr
from minrisk.seeding import digest, stream
from minrisk.study.als_path import values_along_path
from minrisk.study.files import read_json, write_json
from minrisk.study.parallel import spread
from minrisk.study.simulation import BUDGETS
from minrisk.study.store import Progress, Store
from minrisk.study.trials import draw_samples, full_values, shares_of
from minrisk.types import Estimate, FloatArray, ranking

REGULARIZATIONS = (0.1, 0.15, 0.2)
RANKS = tuple(range(5, 16))
ITERATIONS = tuple(range(10, 31))


@dataclass(frozen=True)
class Grid:
    """What is searched, and on what; the defaults are the paper's, which leaves budgets and trials open.

    held_out  segments, drawn at random; a study of the tuned method leaves them out
    paper     tune the literal published procedure, or else the package's own
    """

    regularizations: tuple[float, ...] = REGULARIZATIONS
    ranks: tuple[int, ...] = RANKS
    iterations: tuple[int, ...] = ITERATIONS
    size: int = 128
    budgets: tuple[Budget, ...] = BUDGETS
    held_out: int = 10
    trials: int = 4
    seed: int = 0
    keep_duplicates: bool = False
    unit: float | None = None
    paper: bool = False

    def __post_init__(self) -> None:
        for name in ("regularizations", "ranks", "iterations"):
            if not getattr(self, name):
                raise InputError(f"`{name}` of the grid is empty; at least one is needed")
        for name in ("held_out", "trials", "size"):
            if getattr(self, name) < 1:
                raise InputError(f"`{name}` of the grid must be at least 1, got {getattr(self, name)}")
        for name in ("regularizations", "ranks", "iterations"):
            object.__setattr__(self, name, tuple(sorted(set(getattr(self, name)))))
        object.__setattr__(self, "budgets", tuple(shares_of(self.budgets)))


@dataclass(frozen=True, slots=True)
class Tuned:
    """The outcome of a grid search.

    loss      (regularizations, ranks, iterations, budgets) mean place of full MBR's choice in PMBR's ranking; 1 is best
    method    the best of the grid over all budgets
    default   the loss of the package's defaults, if they are in the grid: (budgets,)
    held_out  ids of the segments that were used
    """

    grid: Grid
    loss: FloatArray
    method: Pmbr
    held_out: tuple[str, ...]

    @property
    def of_budget(self) -> list[Pmbr]:
        """The best of the grid for each budget alone."""
        return [_method_at(self.grid, self.loss[..., budget]) for budget in range(self.loss.shape[-1])]

    def loss_of(self, method: Pmbr) -> FloatArray | None:
        """(budgets,) of a point of the grid; None for one that is not in it."""
        try:
            place = (
                self.grid.regularizations.index(cast(float, method.regularization)),
                self.grid.ranks.index(cast(int, method.rank)),
                self.grid.iterations.index(cast(int, method.iterations)),
            )
        except ValueError:
            return None
        return np.asarray(self.loss[place])

    def save(self, path: str | Path, store: Store) -> None:
        """Write the configuration that `tuned_method` and `minrisk decode --tuned` read."""
        options = ("rank", "regularization", "iterations", "paper")
        content = {
            "method": "pmbr",
            "options": {name: getattr(self.method, name) for name in options},
            "unit": self.grid.unit or store.unit,
            "held_out": list(self.held_out),
            "mean_rank": float(np.mean(cast(FloatArray, self.loss_of(self.method)))),
            "values": store.signature,
            "size": self.grid.size,
            "budgets": [str(budget) for budget in self.grid.budgets],
            "trials": self.grid.trials,
            "seed": self.grid.seed,
            "keep_duplicates": self.grid.keep_duplicates,
        }
        write_json(Path(path), content)


def tune(
    store: Store, grid: Grid | None = None, *, workers: int | None = None, progress: Progress | None = None
) -> Tuned:
    """Search the grid: for each held-out segment, trial, budget, rank and regularization, one path of iterations.

    Every point of the grid sees the same samples and the same cells.
    """
    grid = grid or Grid()
    if grid.held_out > len(store.ids):
        raise InputError(f"{grid.held_out} segments are to be held out, and there are {len(store.ids)}")
    order = stream(grid.seed, digest(("held-out", *store.ids)), "segments").permutation(len(store.ids))
    numbers = sorted(order[: grid.held_out].tolist())
    tasks = [(store.folder, grid, number, trial) for number in numbers for trial in range(grid.trials)]
    total = np.zeros((len(grid.regularizations), len(grid.ranks), len(grid.iterations), len(grid.budgets)))
    for done, (_, places) in enumerate(spread(places_of, tasks, workers), 1):
        total += places
        if progress is not None:
            progress(done, len(tasks))
    loss = total / len(tasks)
    return Tuned(grid, loss, _method_at(grid, loss.mean(axis=-1)), tuple(store.ids[number] for number in numbers))


def places_of(folder: Path, grid: Grid, number: int, trial: int) -> FloatArray:
    """The place of full MBR's choice at every point of the grid, in one trial of one segment."""
    pool = Store.open(folder).pool(number, unit=grid.unit)
    drawn = draw_samples(pool, grid.size, grid.seed, trial, grid.keep_duplicates)
    weights = drawn.problem.row_weights
    best = ranking(Estimate(values=full_values(drawn)), weights)[0]
    places = np.empty((len(grid.regularizations), len(grid.ranks), len(grid.iterations), len(grid.budgets)))
    for column, share in enumerate(shares_of(grid.budgets)):
        limited = replace(drawn.problem, budget=calls_allowed(share, drawn.problem.size))
        for (i, regularization), (j, rank) in product(enumerate(grid.regularizations), enumerate(grid.ranks)):
            method = Pmbr(rank=rank, regularization=regularization, paper=grid.paper)
            found = values_along_path(method, limited, drawn.matrix, grid.seed, grid.iterations)
            for k, values in enumerate(found):
                order = ranking(Estimate(values=values), weights)
                places[i, j, k, column] = int(np.flatnonzero(order == best)[0]) + 1
    return places


def tuned_method(path: str | Path, unit: float = 1.0) -> tuple[Pmbr, tuple[str, ...]]:
    """The method that a tuned configuration holds, and the ids of the segments that it was tuned on.

    unit  the method is for values that have been divided by this. The published procedure depends on the scale: values
          c times as large are completed alike with c times the regularization.
    """
    content: dict[str, Any] = read_json(Path(path), "a tuned configuration (see `minrisk study tune`)")
    if content.get("method") != "pmbr":
        raise InputError(f"{path}: a tuned configuration is one of method 'pmbr', got {content.get('method')!r}")
    try:
        options, held_out = dict(content["options"]), tuple(map(str, content.get("held_out", ())))
        if options.get("paper"):
            options["regularization"] = float(options["regularization"]) * float(content.get("unit", 1.0)) / unit
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path}: not as `minrisk study tune` writes it: {error!r}") from error
    return cast(Pmbr, configured("pmbr", **options)), held_out


def losses(tuned: Tuned, chosen: Sequence[tuple[str, Pmbr]]) -> list[tuple[str, Pmbr, FloatArray]]:
    """Named points of the grid with their losses; those that are not in it are left out."""
    found = []
    for name, method in chosen:
        loss = tuned.loss_of(method)
        if loss is not None:
            found.append((name, method, loss))
    return found


def _method_at(grid: Grid, loss: FloatArray) -> Pmbr:
    """The point with the least loss (regularizations, ranks, iterations); of equal ones, the cheapest."""
    least = np.argwhere(loss <= loss.min() + 1e-12)
    i, j, k = min(least.tolist(), key=lambda place: (place[1] ** 2 * (place[2] + 1), place))
    return Pmbr(
        rank=grid.ranks[j], regularization=grid.regularizations[i], iterations=grid.iterations[k], paper=grid.paper
    )
