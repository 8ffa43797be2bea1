"""What docs/paper.md says, on a few segments of the real samples."""

from __future__ import annotations

from pathlib import Path

import pytest

from minrisk.study.simulation import Design, simulate
from minrisk.study.spectra import spectrum
from minrisk.study.store import Store, build_store
from minrisk.study.summary import summarize
from minrisk.utilities.chrf import ChrF

SAMPLES = Path(__file__).parents[2] / "../shared/data/test16.jsonl.gz"

pytestmark = pytest.mark.skipif(not SAMPLES.is_file(), reason="the samples are not beside the project")


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return build_store(SAMPLES, ChrF(), tmp_path_factory.mktemp("real"), limit=8)


def test_the_first_singular_value_stands_out(real: Store) -> None:
    found = spectrum(real, [64], keep_duplicates=True, workers=1)[0]
    assert found.ratio < 0.2
    assert found.first_share["raw"] > 0.9
    assert found.effective_rank["others"] > 3 * found.effective_rank["raw"]


def test_more_calls_bring_every_method_closer_to_full_mbr(real: Store, tmp_path: Path) -> None:
    design = Design(sizes=(64,), budgets=("1/16", "1/2"), trials=3, keep_duplicates=True)
    summary = summarize(simulate(real, tmp_path, design, workers=1))[0]
    for method in ("PMBR", "NxK", "SxS"):
        few, many = (summary.mean(method, budget, "regret") for budget in ("1/16", "1/2"))
        assert 0 <= many < few
