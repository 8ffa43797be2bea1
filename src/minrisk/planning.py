"""What decoding would cost, before anything is spent: methods are rehearsed on a few segments, no metric is called.

A rehearsal runs the real plans of the methods on the real texts, and answers them with chrF in the metric's place. What
a method asks for is counted. Methods that always use their whole budget ask for the same whatever the values; what the
others ask for depends on them a little.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import cast

import numpy as np

from minrisk.budgets import AUTO, calls_allowed, parse_budget
from minrisk.decoding import Configuration
from minrisk.engine import run
from minrisk.errors import InputError
from minrisk.methods import METHODS
from minrisk.problems import check_weights, problem_of
from minrisk.seeding import stream
from minrisk.types import TARGET, Cells, FloatArray, Folded, IntArray, Method, Problem, Segment
from minrisk.utilities import UTILITIES
from minrisk.utilities.base import EncodedUtility, MatrixUtility, QualityUtility, Utility

BUDGETS = ("1/64", "1/32", "1/16", "1/8", "1/4", "1/2")
REHEARSED_SEGMENTS, REHEARSED_CELLS = 64, 1 << 20
"""What is rehearsed at most, of the segments that were read; two segments at least."""
LARGEST_SEGMENT = 1 << 26
"""Cells of a segment that can be rehearsed: their values are held."""
NOT_PLANNED = {"exact", "reference-free"}
"""Kinds of methods that are no way of saving calls; full MBR alone is shown, to compare with."""
SECONDS_MEASURED = 1.0


@dataclass(frozen=True, slots=True)
class Hardware:
    """What devices are known to do: calls a second of each, and how many there were."""

    calls_per_second: float
    devices: int
    what: str


HARDWARE = {
    "paper": Hardware(
        2037 * 1024**2 / (2000 * 24 * 3600),
        2000,
        "TPU v4 with MetricX: all pairs of 1024 samples of 2037 segments took 2000 of them 24 hours "
        "(Trabelsi et al. 2024, WMT22 English-German)",
    ),
}
Count = Callable[[str], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """What hardware does, and what is paid. Seconds and prices that are given add up.

    tokens_per_call  beside the texts, such as the prompt of a judge
    """

    calls_per_second: float | None = None
    encodes_per_second: float | None = None
    devices: int = 1
    price_per_call: float | None = None
    price_per_1k_tokens: float | None = None
    price_per_hour: float | None = None
    tokens_per_call: int = 0

    def __post_init__(self) -> None:
        for name in self.__slots__:
            value = getattr(self, name)
            least = "zero or more" if name == "tokens_per_call" else "above zero"
            if value is not None and not (math.isfinite(value) and value > -(least == "zero or more")):
                raise InputError(f"`{name}` must be {least}, got {value}")

    @property
    def timed(self) -> bool:
        """Whether a speed is known."""
        return self.calls_per_second is not None or self.encodes_per_second is not None

    @property
    def priced(self) -> bool:
        """Whether a price is known."""
        return any(price is not None for price in (self.price_per_call, self.price_per_1k_tokens, self.price_per_hour))

    def hours(self, calls: float, encodes: float) -> float | None:
        """Hours on all devices together; None where no speed is known."""
        parts = ((calls, self.calls_per_second), (encodes, self.encodes_per_second))
        seconds = sum(count / rate for count, rate in parts if rate is not None)
        return seconds / self.devices / 3600 if self.timed else None

    def cost(self, calls: float, tokens: float | None, hours: float | None) -> float | None:
        """The price of calls, tokens and the hours of every device; None where no price is known."""
        device_hours = None if hours is None else hours * self.devices
        parts = (
            (calls, self.price_per_call),
            (None if tokens is None else tokens / 1000, self.price_per_1k_tokens),
            (device_hours, self.price_per_hour),
        )
        return sum(count * price for count, price in parts if count and price) if self.priced else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What a method costs on a budget, for the whole file."""

    method: str
    budget: str
    calls: int
    share: float
    encodes: int | None
    tokens: int | None
    hours: float | None
    cost: float | None


@dataclass(slots=True)
class Survey:
    """What was read: the shapes of all segments, and a few segments whole.

    share   how much of the input was read, 0 to 1; None where that cannot be known
    """

    rows: list[int] = field(default_factory=list)
    columns: list[int] = field(default_factory=list)
    texts: list[int] = field(default_factory=list)
    kept: list[Segment] = field(default_factory=list)
    share: float | None = 1.0

    @property
    def segments(self) -> int:
        """How many segments the whole input holds; an estimate where it was not read to its end."""
        return round(len(self.rows) / (self.share or 1.0))

    @property
    def scale(self) -> float:
        """Segments of the whole input for each that was read."""
        return self.segments / len(self.rows)

    @property
    def cells(self) -> int:
        """Calls of full MBR on the whole input."""
        return round(self.scale * float(np.dot(np.array(self.rows, dtype=float), self.columns)))

    def allowed(self, budget: Fraction | int) -> int:
        """Calls that a budget allows for the segments read."""
        return sum(calls_allowed(budget, rows * columns) for rows, columns in zip(self.rows, self.columns, strict=True))


def survey(segments: Iterable[Segment], utility: Utility, limit: int, seed: int = 0) -> Survey:
    """Read segments, `limit` at most, and keep a random few of them."""
    found = Survey()
    rng = stream(seed, b"", "survey")
    source = iter(segments)
    while len(found.rows) < limit and (segment := next(source, None)) is not None:
        own, other = set(segment.hypotheses), set(segment.columns_given)
        found.rows.append(len(own))
        found.columns.append(1 if isinstance(utility, QualityUtility) else len(other))
        found.texts.append(len(own | other) + (utility.uses_source and segment.source is not None))
        # A reservoir: each of the segments read has the same chance to be kept.
        place = len(found.kept) if len(found.kept) < REHEARSED_SEGMENTS else int(rng.integers(len(found.rows)))
        if place < REHEARSED_SEGMENTS:
            found.kept[place : place + 1] = [segment]
    _keep_few_cells(found, utility)
    return found


def _keep_few_cells(found: Survey, utility: Utility) -> None:
    cells = 0
    for place, segment in enumerate(found.kept):
        problem = _problem(segment, utility, place)  # Tells what the utility lacks, such as a source.
        cells += problem.size
        if place >= 2 and cells > REHEARSED_CELLS:
            del found.kept[place:]


def imagined(segments: int, candidates: int, words: int = 20, seed: int = 0) -> Iterator[Segment]:
    """Segments of so many distinct candidates, of random words: to plan before there are samples."""
    rng = stream(seed, b"", "imagined")
    for number in range(min(segments, REHEARSED_SEGMENTS)):
        drawn = rng.integers(1000, size=(candidates, words))
        texts = [f"{place} {' '.join(f'w{word}' for word in line)}" for place, line in enumerate(drawn)]
        yield Segment(id=str(number), hypotheses=texts, source="imagined")


def planned_methods() -> list[str]:
    """The registered methods that save calls."""
    return [name for name in METHODS if getattr(METHODS.factory(name), "kind", "") not in NOT_PLANNED]


def plan(
    found: Survey,
    utility: Utility,
    methods: Sequence[str],
    budgets: Sequence[str],
    rates: Rates,
    tokens_of: Count | None = None,
    weights: str = "multiplicity",
) -> tuple[list[Row], dict[str, str]]:
    """A row for full MBR and for each method on each budget; and why methods are left out, by name."""
    if rates.encodes_per_second is not None and not isinstance(utility, EncodedUtility):
        raise InputError(f"utility {utility.name!r} does not encode texts; calls per second are its speed")
    if rates.price_per_hour is not None and not rates.timed:
        raise InputError("a price per hour needs a speed: calls or encodes per second, or a known hardware")
    for budget in budgets:
        if budget != AUTO:
            parse_budget(budget)
    check_weights(weights)
    rehearsal = Rehearsal(found, utility, tokens_of, weights)
    rows = [_row(rehearsal, "full", "1.0", rates)]
    left_out: dict[str, str] = {}
    for budget in budgets:
        for name in methods:
            try:
                rows.append(_row(rehearsal, name, budget, rates))
            except InputError as error:
                left_out[name] = str(error)
    return rows, left_out


def _row(rehearsal: Rehearsal, name: str, budget: str, rates: Rates) -> Row:
    used = rehearsal.usage(name, budget)
    encodes = used.encodes if isinstance(rehearsal.utility, EncodedUtility) else None
    tokens = used.tokens + rates.tokens_per_call * used.calls if rehearsal.tokens_of is not None else None
    hours = rates.hours(used.calls, encodes or 0.0)
    return Row(
        method=name,
        budget=budget,
        calls=round(used.calls),
        share=used.calls / rehearsal.found.cells,
        encodes=None if encodes is None else round(encodes),
        tokens=None if tokens is None else round(tokens),
        hours=hours,
        cost=rates.cost(used.calls, tokens, hours),
    )


@dataclass(frozen=True, slots=True)
class Usage:
    """What a method asks for."""

    calls: float
    encodes: float
    tokens: float


class Rehearsal:
    """Runs methods on the segments kept, and scales what they ask for up to the whole input."""

    def __init__(
        self, found: Survey, utility: Utility, tokens_of: Count | None = None, weights: str = "multiplicity"
    ) -> None:
        self.found = found
        self.utility = utility
        self.tokens_of = tokens_of
        # Not chrF again: what a cheap metric says must not be all that there is to say of the expensive one.
        self._cheap = cast(Utility, UTILITIES.create("word_f1", {}))
        self._problems = [_problem(segment, utility, place, weights) for place, segment in enumerate(found.kept)]
        self._standins = [Standin(problem, utility, tokens_of) for problem in self._problems]

    def usage(self, name: str, budget: str) -> Usage:
        """What the method would ask for over the whole input."""
        configuration = Configuration("chrf", cast(Method, METHODS.parse(name)), budget)
        utilities = dict.fromkeys(configuration.utilities, self._cheap)
        calls = encodes = tokens = allowed = texts = 0.0
        for problem, standin in zip(self._problems, self._standins, strict=True):
            own = replace(problem, budget=calls_allowed(configuration.budget, problem.size))
            standin.start()
            (session,) = run([own], configuration.method, utilities | {TARGET: standin})
            calls += session.calls
            allowed += own.budget
            encodes += standin.encodes
            texts += len(standin.texts)
            tokens += standin.tokens
        scale = self.found.scale
        total_calls = scale * self.found.allowed(configuration.budget) * calls / allowed
        total_encodes = scale * sum(self.found.texts) * encodes / max(1.0, texts)
        return Usage(total_calls, total_encodes, total_calls * tokens / max(1.0, calls))


class Standin(MatrixUtility):
    """chrF in the place of a metric for one problem; notes which texts were asked for."""

    name = "standin"

    def __init__(self, problem: Problem, utility: Utility, tokens_of: Count | None) -> None:
        self._chrf = cast(MatrixUtility, UTILITIES.create("chrf", {}))
        self._utility = utility
        self._values = self._chrf.matrix(problem.candidates, problem.pseudo_references)
        source = [problem.source] if utility.uses_source and problem.source is not None else []
        self.texts = list(dict.fromkeys([*problem.candidates, *problem.pseudo_references, *source]))
        numbers = {text: number for number, text in enumerate(self.texts)}
        self._rows = np.array([numbers[text] for text in problem.candidates])
        self._columns = np.array([numbers[text] for text in problem.pseudo_references])
        self._source = [numbers[text] for text in source]
        self._lengths = np.array([tokens_of(text) if tokens_of else 0.0 for text in self.texts])
        self.start()

    def start(self) -> None:
        """Forget what was asked for."""
        self._asked = np.zeros(len(self.texts), dtype=bool)
        self.tokens = 0.0

    @property
    def encodes(self) -> int:
        """Texts that were asked for, the source with them."""
        return int(self._asked.sum())

    def matrix(self, *_: object, **__: object) -> FloatArray:
        return self._values

    def answer(self, _: Problem, cells: Cells) -> FloatArray:
        self._note(cells.rows, cells.columns)
        return self._values[cells.rows, cells.columns]

    def answer_folded(self, problem: Problem, folded: Folded) -> FloatArray:
        if not _can(self._utility, "aggregate", "fold"):
            raise InputError(f"utility {self._utility.name!r} cannot fold pseudo-references into one")
        columns = np.arange(len(problem.pseudo_references))
        self._note(np.repeat(folded.rows, len(folded.weights)), columns)
        return (self._values[folded.rows] @ folded.weights.T).ravel()

    def answer_encodings(self, problem: Problem) -> FloatArray:
        if not _can(self._utility, "encode", "vectors"):
            raise InputError(f"utility {self._utility.name!r} does not encode texts as vectors")
        self._asked[self._columns] = True
        return self._chrf.encode(problem.pseudo_references)

    def _note(self, rows: IntArray, columns: IntArray) -> None:
        self._asked[self._rows[rows]] = True
        self._asked[self._columns[columns]] = True
        self._asked[self._source] = True
        calls = len(rows)
        columns_per_call = self._lengths[self._columns[columns]].mean() if calls else 0.0
        self.tokens += self._lengths[self._rows[rows]].sum() + calls * columns_per_call
        self.tokens += calls * self._lengths[self._source].sum()


def _can(utility: Utility, of_pairs: str, of_encodings: str) -> bool:
    """Whether a utility implements what its base class only refuses."""
    encoded = isinstance(utility, EncodedUtility)
    name, base = (of_encodings, EncodedUtility) if encoded else (of_pairs, Utility)
    return getattr(type(utility), name) is not getattr(base, name)


def _problem(segment: Segment, utility: Utility, position: int, weights: str = "multiplicity") -> Problem:
    try:
        problem = problem_of(segment, utility, Fraction(1), weights, position)
        if problem.size > LARGEST_SEGMENT:
            raise InputError(
                f"has {problem.shape[0]:,} x {problem.shape[1]:,} cells, too many to rehearse methods on; "
                f"plan with {math.isqrt(LARGEST_SEGMENT):,} candidates at most"
            )
        return problem
    except InputError as error:
        raise InputError(f"segment {segment.id or str(position)!r}: {error}") from error


def measured(found: Survey, utility: Utility, seed: int = 0) -> tuple[float, float | None]:
    """Calls a second, and encodes a second where the utility encodes texts: timed here, with the real metric."""
    rng = stream(seed, b"", "measured")
    lefts, rights, sources = [], [], []
    for segment in found.kept:
        for _ in range(4096 // len(found.kept)):
            lefts.append(segment.hypotheses[int(rng.integers(len(segment.hypotheses)))])
            rights.append(segment.columns_given[int(rng.integers(len(segment.columns_given)))])
            sources.append(segment.source)
    if isinstance(utility, MatrixUtility):
        size = sum(len(segment.hypotheses) * len(segment.columns_given) for segment in found.kept)
        return size * _rate(lambda count: _matrices(utility, found.kept, count), 1 << 16), None
    utility.score(lefts[:1], rights[:1], sources[:1])  # Loads the model.
    if isinstance(utility, EncodedUtility):
        texts = list(dict.fromkeys([*lefts, *rights]))
        encodings = utility.represent(texts[:64])
        drawn = rng.integers(len(encodings), size=(3, 1 << 16))
        compares = _rate(lambda count: utility.compare(encodings, *drawn[:, :count]), 1 << 16)
        return compares, _rate(lambda count: utility.represent(texts[:count]), len(texts))
    return _rate(lambda count: utility.score(lefts[:count], rights[:count], sources[:count]), len(lefts)), None


def _matrices(utility: Utility, segments: Sequence[Segment], times: int) -> None:
    for segment in [*segments] * times:
        utility.matrix(segment.hypotheses, segment.columns_given, segment.source)


def _rate(work: Callable[[int], object], most: int) -> float:
    """How many a second: four times as many until they take long enough to be timed."""
    count = 1
    work(count)  # Whatever has to be compiled or loaded.
    while True:
        begin = time.perf_counter()
        work(count)
        seconds = time.perf_counter() - begin
        if seconds >= SECONDS_MEASURED or count == most:
            return count / max(seconds, 1e-9)
        count = min(most, count * 4)
