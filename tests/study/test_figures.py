"""Figures are drawn from records, the same each time, as PNG and SVG."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from minrisk.errors import MissingExtraError
from minrisk.study.figures import write_figures, write_spectrum_figure
from minrisk.study.simulation import Design, simulate
from minrisk.study.spectra import spectrum, write_spectra
from minrisk.study.store import Store


def test_figures_of_a_simulation(store: Store, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    design = Design(methods=("NxK", "SxS"), sizes=(8,), budgets=("1/4", "1/2"), trials=2)
    records = simulate(store, tmp_path / "records", design, workers=1)
    written = write_figures(records, tmp_path / "first")
    assert {path.name for path in written} == {
        f"{name}.{suffix}"
        for name in ("expected-N8", "bleu-N8", "chrf-N8", "regret-calls")
        for suffix in ("png", "svg")
    }
    again = write_figures(records, tmp_path / "second")
    for first, second in zip(written, again, strict=True):
        assert first.read_bytes() == second.read_bytes()
    assert b"NxK" in (tmp_path / "first" / "expected-N8.svg").read_bytes()


def test_a_legend_of_many_methods_stands_below(store: Store, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    image = importlib.import_module("matplotlib.image")
    heights = []
    for methods in (("NxK", "SxS"), ("NxK", "SxS", "columns", "square", "map", "random")):
        design = Design(methods=methods, sizes=(8,), budgets=("1/4", "1/2"), trials=1)
        records = simulate(store, tmp_path / str(len(methods)), design, workers=1)
        write_figures(records, tmp_path / "figures")
        heights.append(image.imread(tmp_path / "figures" / "expected-N8.png").shape[0])
    assert heights[1] > heights[0]


@pytest.mark.parametrize(("methods", "shown"), [(("map",), False), ((), False), (("map", "NxK"), True)])
def test_what_logarithms_cannot_show_is_left_out(
    methods: tuple[str, ...], shown: bool, store: Store, tmp_path: Path
) -> None:
    pytest.importorskip("matplotlib")
    design = Design(methods=methods, sizes=(8,), budgets=("1/4",), trials=2)
    records = simulate(store, tmp_path / "records", design, workers=1)
    names = {path.name for path in write_figures(records, tmp_path)}
    assert "expected-N8.png" in names
    assert ("regret-calls.png" in names) == shown


def test_figure_of_a_spectrum(store: Store, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    write_spectra(spectrum(store, [8], workers=1), tmp_path, "chrF")
    assert len(write_spectrum_figure(tmp_path, tmp_path / "figures")) == 2


def test_without_matplotlib_it_is_said_what_to_install(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_spectra(spectrum(store, [8], workers=1), tmp_path, "chrF")
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r"minrisk\[study\]"):
        write_spectrum_figure(tmp_path, tmp_path / "figures")
