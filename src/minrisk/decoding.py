"""The public functions: from segments to decisions."""

from __future__ import annotations

import numbers
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from minrisk.budgets import AUTO, Budget, parse_budget
from minrisk.configuration import described
from minrisk.engine import WINDOW, run
from minrisk.errors import InputError, MinriskError
from minrisk.methods import METHODS
from minrisk.problems import against_reference, check_weights, problem_of
from minrisk.scoring import Ledger
from minrisk.session import Session
from minrisk.store import Store
from minrisk.types import TARGET, Decision, Method, Problem, Segment, ranking
from minrisk.utilities import UTILITIES
from minrisk.utilities.base import PairUtility, QualityUtility, Utility
from minrisk.utilities.function import Function, QualityFunction
from minrisk.utilities.mixture import Mixture
from minrisk.version import __version__


def method(name: str | Method | None = None, /, **options: Any) -> Method:
    """A configured method: `method("pmbr", rank=8)` or `method("pmbr(rank=8)")`; a configured one stays as it is."""
    if name is not None and not isinstance(name, str):
        if options or isinstance(name, type) or not hasattr(name, "plan"):
            raise InputError(f"a method must be a name or an object with a `plan`, got {name!r}")
        return name
    if name is not None and "(" in name and not options:
        return cast(Method, METHODS.parse(name))
    return cast(Method, METHODS.create(name or "full", options))


def utility(name: str | Utility | Any, /, **options: Any) -> Utility:
    """A configured utility: `utility("chrf", word_order=2)`, or any callable: `utility(judge, batch_size=64)`.

    A name may hold options and be mixed: `"0.7*chrf + 0.3*bleu(lowercase=true)"`. A callable f(candidates, sources)
    that judges without references is `utility(f, quality=True)`.
    """
    if isinstance(name, Utility):
        if options:
            raise InputError(f"utility {name.name!r} is configured already; options go with a name: {sorted(options)}")
        return name
    if isinstance(name, str):
        return cast(Utility, UTILITIES.create(name, options)) if name in UTILITIES else _parsed(name, options)
    return QualityFunction(name, **options) if options.pop("quality", False) else Function(name, **options)


def _parsed(text: str, options: Mapping[str, Any]) -> Utility:
    """The utility of `name(option=value)`, or the mixture of `weight*name + weight*name`."""
    terms = re.split(r"\+(?![^(]*\))", text)
    if len(terms) == 1 and "*" not in text:
        return cast(Utility, UTILITIES.parse(text) if "(" in text else UTILITIES.create(text, options))
    if options:
        raise InputError(f"options of a mixture stand with its parts: 0.5*chrf(word_order=2) + 0.5*bleu, got {text!r}")
    weights, parts = [], []
    for term in terms:
        weight, times, name = term.rpartition("*")
        if not name.strip():
            raise InputError(
                f"a mixture must look like 0.7*chrf + 0.3*bleu, and chrF++ is chrf(word_order=2), got {text!r}"
            )
        try:
            weights.append(float(weight) if times else 1.0)
        except ValueError as error:
            raise InputError(f"a mixture must look like 0.7*chrf + 0.3*bleu, got {text!r}") from error
        parts.append(cast(Utility, UTILITIES.parse(name)))
    return Mixture(tuple(parts), tuple(weights))


def decode(
    hypotheses: Sequence[str],
    utility: str | Utility | Any = "chrf",
    method: str | Method | None = None,
    budget: Budget | None = None,
    *,
    source: str | None = None,
    pseudo_references: Sequence[str] | None = None,
    weights: str | Sequence[float] = "multiplicity",
    logprobs: Sequence[float] | None = None,
    pseudo_reference_logprobs: Sequence[float] | None = None,
    scores: Sequence[float] | None = None,
    reference: str | None = None,
    seed: int = 0,
    id: str | None = None,
) -> Decision:
    """Choose the hypothesis with the highest expected utility against the others.

    utility            a name, a configured utility, or a callable f(candidates, pseudo_references) -> floats
    method             a name or a configured method; without one: full MBR, or "frontier" where not all is scored
    budget             a share of the distinct cells (1/16, 0.25, "1/16"), a number of calls (1024), or "auto": as few
                       as make the choice sure. Without one: "auto" for "frontier", and where no method is named and
                       every pair costs a call (a cross-encoder, a judge, any callable); else all cells
    pseudo_references  what to compare with, if not the hypotheses themselves
    weights            of the pseudo-references: "multiplicity", "logprob", "logprob-normalized", or numbers
    logprobs           of the hypotheses; `pseudo_reference_logprobs` of pseudo-references of their own
    scores, reference  a quality or reward of each hypothesis, and a human reference, for the methods that go by them
    """
    named = isinstance(weights, str)
    segment = Segment(
        id=id,
        hypotheses=hypotheses,
        source=source,
        pseudo_references=pseudo_references,
        logprobs=logprobs,
        pseudo_reference_logprobs=pseudo_reference_logprobs,
        scores=scores,
        reference=reference,
        weights=None if named else cast(Sequence[float], weights),
    )
    scheme = cast(str, weights) if named else "multiplicity"
    return next(decode_corpus([segment], utility, method, budget, weights=scheme, seed=seed))


def decode_corpus(
    segments: Iterable[Segment | Mapping[str, Any]],
    utility: str | Utility | Any = "chrf",
    method: str | Method | None = None,
    budget: Budget | None = None,
    *,
    weights: str = "multiplicity",
    seed: int = 0,
    window: int = WINDOW,
    ledger: Ledger | None = None,
    store: Store | str | Path | None = None,
    workers: int = 1,
) -> Iterator[Decision]:
    """The decisions of many segments, in order, as they are reached; see `decode` for the arguments.

    window  segments worked on at once; more fill the batches of an expensive metric better, none changes a result
    ledger  a `Ledger` to be kept up to date with what the run has spent
    store   a `Store`, or the path of one: what it holds is not scored again, and what is scored it keeps
    workers processes to share the work, for metrics that keep a processor busy; a callable must be importable by name
    """
    work = Work(Configuration(utility, method, budget, weights, seed), window=window)
    return decided(segments, work, store=store, workers=workers, ledger=ledger)


def decided(
    segments: Iterable[Segment | Mapping[str, Any]],
    work: Work,
    *,
    store: Store | str | Path | None = None,
    workers: int = 1,
    ledger: Ledger | None = None,
    first: int = 0,
) -> Iterator[Any]:
    """What the work makes of each segment, in order; see `decode_corpus`. `first` is the position of the first one."""
    if isinstance(workers, bool) or not isinstance(workers, int) or workers < 1:
        raise InputError(f"`workers` must be a number of processes of at least 1, got {workers!r}")
    ledger = Ledger() if ledger is None else ledger
    return _decided(segments, work, store, workers, ledger, first)


def _decided(
    segments: Iterable[Segment | Mapping[str, Any]],
    work: Work,
    store: Store | str | Path | None,
    workers: int,
    ledger: Ledger,
    first: int,
) -> Iterator[Any]:
    with nullcontext(store) if store is None or isinstance(store, Store) else Store(store) as opened:
        if workers == 1:
            yield from work.results(segments, first, ledger=ledger, store=opened)
        else:
            from minrisk.workers import results_of_workers

            yield from results_of_workers(segments, work, workers, opened, ledger, first)


class Configuration:
    """What decides the outcome of a run: utility, method, budget, weights, seed."""

    def __init__(
        self,
        utility: str | Utility | Any = "chrf",
        method: str | Method | None = None,
        budget: Budget | None = None,
        weights: str = "multiplicity",
        seed: int = 0,
    ) -> None:
        self.utility = _utility(utility)
        if budget is None:
            sparing = _costly(self.utility) if method is None else hasattr(_method(method), "confidence")
            budget = AUTO if sparing else 1.0
        if budget == AUTO:
            self.method, self.budget = _sure(method), parse_budget(1.0)
        else:
            self.budget = parse_budget(budget)
            every = self.budget == 1 and not isinstance(self.budget, int)
            self.method = _method(method or ("full" if every else "frontier"))
        check_weights(weights)
        self.weights = weights
        if isinstance(seed, bool) or not isinstance(seed, int | numbers.Integral):
            raise InputError(f"`seed` must be a whole number, got {seed!r}")
        self.seed = int(seed)
        auxiliaries: Mapping[str, Any] = getattr(self.method, "auxiliaries", {})
        self.utilities = {TARGET: self.utility} | {role: _utility(name) for role, name in auxiliaries.items()}
        judge = self.utilities.get("quality")
        if judge is not None and not isinstance(judge, QualityUtility):
            raise InputError(
                f"`by` of method {self.method_name!r} must judge candidates without references (cometkiwi, metricx_qe, "
                f"xcomet_qe), or be scores or logprobs; got {judge.name!r}, which compares them with references"
            )

    def problems(self, segments: Iterable[Segment | Mapping[str, Any]], first: int = 0) -> Iterator[Problem]:
        """The problem of each segment; errors name it. `first` is the position of the first one."""
        for position, given in enumerate(segments, first):
            name: object = position
            try:
                segment = given if isinstance(given, Segment) else Segment.of(given)
                name = position if segment.id is None else segment.id
                if getattr(self.method, "against_reference", False):
                    segment = against_reference(segment)
                yield problem_of(segment, self.utility, self.budget, self.weights, position)
            except InputError as error:
                raise InputError(f"segment {str(name)!r}: {error}") from error

    @property
    def method_name(self) -> str:
        """The registered name of the method, or its class's if it has none."""
        known = (name for name in METHODS if isinstance(self.method, METHODS.factory(name)))
        return next(known, type(self.method).__name__)

    def signature(self) -> str:
        """Version and everything that decides the outcome, on one line."""
        return "|".join(
            (
                f"minrisk:{__version__}",
                f"method:{described(self.method_name, self.method)}",
                f"utility:{self.utility.signature()}",
                f"budget:{self.budget}",
                f"weights:{self.weights}",
                f"seed:{self.seed}",
            )
        )


@dataclass(frozen=True, slots=True)
class Work:
    """What is done with segments, in this process or in another: each is decided, and `record` says what is kept."""

    configuration: Configuration
    record: Callable[[Decision], Any] | None = None
    window: int = WINDOW

    def results(self, segments: Iterable[Segment | Mapping[str, Any]], first: int = 0, **options: Any) -> Iterator[Any]:
        """The decision on each segment, or its record. `options` are the engine's: ledger, store, scorers."""
        known = self.configuration
        problems = known.problems(segments, first)
        for session in run(problems, known.method, known.utilities, seed=known.seed, window=self.window, **options):
            decision = decision_of(session, known.utility.higher_is_better)
            yield decision if self.record is None else self.record(decision)


_method = method
_utility = utility

SURE = 0.95
"""How sure a choice on the budget "auto" is, where the method's options do not say."""


def _costly(utility: Utility) -> bool:
    """Whether every pair is a call of its own: a cross-encoder, a judge, any callable."""
    if isinstance(utility, Mixture):
        return any(_costly(part) for part in utility.parts)
    return isinstance(utility, PairUtility) and not isinstance(utility, QualityUtility)


def _sure(method: str | Method | None) -> Method:
    """The method for the budget "auto": one that stops when it is confident."""
    chosen = _method(method or "frontier")
    if not hasattr(chosen, "confidence"):
        raise InputError(
            f"a budget of {AUTO!r} needs a method that can stop when it is sure, which is 'frontier'; any other needs "
            f"a share of the cells such as 1/16, or a number of calls; the method is {method!r}"
        )
    return chosen if chosen.confidence is not None else replace(cast(Any, chosen), confidence=SURE)


def decision_of(session: Session, higher_is_better: bool) -> Decision:
    """The decision that a concluded session leads to, on the metric's own scale."""
    problem, estimate = session.problem, session.estimate
    if estimate is None:
        raise MinriskError(f"segment {problem.id!r} is not decided yet")
    row = int(ranking(estimate, problem.row_weights)[0])
    values = estimate.values if higher_is_better else 0.0 - estimate.values
    index = int(problem.row_positions[row])
    return Decision(
        id=problem.id,
        text=problem.candidates[row],
        index=index,
        utilities=values[problem.row_of_hypothesis],
        calls=session.calls,
        cells=problem.size,
        estimate=estimate,
        problem=problem,
    )
