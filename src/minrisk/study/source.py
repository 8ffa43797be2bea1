"""What a study starts from: a samples file, matrices from elsewhere, or a store that is there already."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from minrisk.errors import InputError
from minrisk.study.store import POOL, Progress, Store, build_store, import_matrices
from minrisk.utilities.base import Utility
from minrisk.utilities.table import Table


def prepared_store(
    source: str | Path,
    folder: str | Path,
    utility: Utility,
    *,
    values: str | Path | None = None,
    pool: int = POOL,
    dtype: str = "float32",
    limit: int | None = None,
    metrics: Sequence[Utility] | Mapping[str, Utility] = (),
    lower_is_better: bool = False,
    progress: Progress | None = None,
) -> Store:
    """The matrices of a study.

    source   a folder that holds a store, which is opened; an .npz or .npy of matrices, or a samples file, of which a
             store is made in `folder`
    values   an .npz or .npy with the matrices of the samples (hypotheses x hypotheses), in place of the utility
    metrics  held-out, against the human reference; a store has its own
    limit    segments of a samples file that are used: the first so many
    """
    path = Path(source)
    own = path.suffix in (".npz", ".npy")
    if path.is_dir() or own:
        for name, given in (("values", values), ("metrics", metrics), ("limit", limit)):
            if given:
                raise InputError(f"{source}: is a store or holds matrices; `{name}` goes with a samples file")
    if path.is_dir():
        return Store.open(path)
    if own:
        return import_matrices(path, folder, higher_is_better=not lower_is_better, dtype=dtype)
    chosen = utility if values is None else Table(path=str(values), higher_is_better=not lower_is_better)
    return build_store(path, chosen, folder, pool=pool, dtype=dtype, limit=limit, metrics=metrics, progress=progress)
