"""What every utility must keep."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest

from minrisk.decoding import Configuration, decode
from minrisk.types import Segment
from minrisk.utilities.base import MatrixUtility

ODD_TEXTS = (
    "",
    " ",
    "\x00",
    "a\ud800b",
    "\ufeffmark",
    "line\nbreak\r\n",
    "é e\u0301 ﬁ",
    "😀👩‍👩‍👧",
    "猫が座る",
    "x" * 3000,
)


class UtilitySuite:
    """The promises of a utility on a few texts. Subclass and set `utility`.

    texts      what to compare; the default is plain English
    source     for utilities that need one
    tolerance  how far the same pair may differ between batches: 0 for exact metrics
    """

    utility: ClassVar[Any]
    texts: ClassVar[tuple[str, ...]] = (
        "A man in a blue shirt reads a newspaper.",
        "A man in a blue shirt is reading the paper.",
        "The man with the blue shirt reads.",
        "Two dogs run across the wet grass.",
        "Two dogs are running on the grass!",
        "reads",
        "A man, a man, a man.",
    )
    source: ClassVar[str | None] = None
    tolerance: ClassVar[float] = 0.0

    def test_score_is_the_matrix_cell_by_cell(self) -> None:
        """`matrix`, `score` and `score` of one pair alone agree."""
        matrix = self.utility.matrix(self.texts, self.texts[:4], self.source)
        assert matrix.shape == (len(self.texts), 4)
        assert matrix.dtype == np.float64
        pairs = [(row, column) for row in range(len(self.texts)) for column in range(4)]
        lefts, rights = [self.texts[row] for row, _ in pairs], [self.texts[column] for _, column in pairs]
        scores = self.utility.score(lefts, rights, [self.source] * len(pairs))
        np.testing.assert_allclose(scores, matrix.ravel(), rtol=0, atol=self.tolerance)
        for place in (0, 5, 17):
            alone = self.utility.score([lefts[place]], [rights[place]], [self.source])
            np.testing.assert_allclose(alone, scores[place : place + 1], rtol=0, atol=self.tolerance)

    def test_some_cells_are_those_of_the_matrix(self) -> None:
        """`cells`, or else `score`, gives what `matrix` gives there, in the order asked."""
        rng = np.random.default_rng(0)
        rows, columns = rng.integers(len(self.texts), size=30), rng.integers(len(self.texts), size=30)
        if isinstance(self.utility, MatrixUtility):
            cells = self.utility.cells(self.texts, self.texts, rows, columns, self.source)
        else:
            lefts, rights = [self.texts[row] for row in rows], [self.texts[column] for column in columns]
            cells = self.utility.score(lefts, rights, [self.source] * 30)
        matrix = self.utility.matrix(self.texts, self.texts, self.source)
        np.testing.assert_allclose(cells, matrix[rows, columns], rtol=0, atol=self.tolerance)

    def test_known_self_values_are_right(self) -> None:
        """`self_values` are what scoring would give; where they are not known, a problem says so."""
        texts = self.texts + ODD_TEXTS
        known = self.utility.self_values(texts)
        if known is None:
            problem = next(Configuration(self.utility).problems([Segment(hypotheses=texts, source=self.source)]))
            assert np.isnan(problem.self_values).all()
        else:
            scored = self.utility.score(texts, texts, [self.source] * len(texts))
            np.testing.assert_allclose(known, scored, atol=1e-9)

    def test_direction(self) -> None:
        """A text agrees better with itself than with an unrelated one."""
        own, other = self.utility.score(
            [self.texts[0], self.texts[0]], [self.texts[0], self.texts[3]], [self.source] * 2
        )
        assert (own > other) == self.utility.higher_is_better

    def test_odd_texts_give_numbers(self) -> None:
        """Empty texts, control characters, lone surrogates, long lines: finite values."""
        assert np.isfinite(self.utility.matrix(ODD_TEXTS, ODD_TEXTS, self.source)).all()

    def test_no_pairs(self) -> None:
        """Nothing asked, nothing returned."""
        assert self.utility.score([], [], []).shape == (0,)

    def test_lists_that_do_not_match_are_refused(self) -> None:
        """As many pseudo-references as candidates."""
        for lefts, rights in ((1, 2), (2, 1), (0, 1)):
            with pytest.raises(ValueError):  # noqa: PT011
                self.utility.score(self.texts[:lefts], self.texts[:rights], [self.source] * lefts)

    def test_signature(self) -> None:
        """It starts with the name."""
        assert self.utility.signature().startswith(self.utility.name)

    def test_full_mbr(self) -> None:
        """Decoding takes the row means on the metric's own scale and chooses by its direction."""
        decision = decode(self.texts, self.utility, source=self.source)
        means = self.utility.matrix(self.texts, self.texts, self.source).mean(axis=1)
        np.testing.assert_allclose(decision.utilities, means, rtol=1e-9, atol=10 * self.tolerance)
        best = means.max() if self.utility.higher_is_better else means.min()
        assert means[decision.index] == pytest.approx(best)
