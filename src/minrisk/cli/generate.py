"""draw samples from a model, for `minrisk decode`"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import redirect_stdout
from typing import IO, TYPE_CHECKING, Any, Protocol

from minrisk.cli.options import count, whole
from minrisk.configuration import parse_settings
from minrisk.errors import InputError, MinriskError

if TYPE_CHECKING:
    from minrisk.formats import Input
    from minrisk.generation.journal import Journal
    from minrisk.generation.prompting import Prompt
    from minrisk.generation.sampling import Sampling
    from minrisk.generation.sources import Source
    from minrisk.generation.wish import Keeper, Wish

EPILOG = """\
examples:
  minrisk generate news.txt --model FOLDER --samples 1024 --epsilon 0.02 --seed 0 -o samples.jsonl
  minrisk generate news.txt --model FOLDER --beam 4 -o best.jsonl
  minrisk generate news.txt --model FOLDER --source-language English --target-language German \\
      --exemplars flores.tsv --shots 3 -o samples.jsonl
  minrisk generate news.txt --server http://localhost:8000/v1 --model NAME --chat --temperature 1 -o samples.jsonl

While a run is under way, its samples stand in OUT.partial; the same command goes on from there.
"""
AS_TEXT = ("generation_config",)
"""Options of servers that are JSON in a string: `transformers serve` parses this one itself."""
KEY_VARIABLE = "OPENAI_API_KEY"
PARAMETERS = ("epsilon", "eta", "top-k", "top-p", "min-p", "typical")


class Model(Protocol):
    """What gives samples: a model on this machine, or a server."""

    warnings: list[str]

    @property
    def settings(self) -> dict[str, object]: ...

    def records(
        self, sources: Iterable[Source], wish: Wish, keeper: Keeper | None = None
    ) -> Iterator[dict[str, Any]]: ...


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `minrisk generate`."""
    parser.usage = "minrisk generate SOURCES --model NAME_OR_FOLDER [options]"
    parser.epilog = EPILOG
    parser.add_argument(
        "sources",
        metavar="SOURCES",
        help=".txt: one a line; .tsv: with references; .jsonl: `source`; .gz too; -: a pipe",
    )
    parser.add_argument(
        "-o", "--output", default="-", metavar="OUT", help="samples as JSON Lines, .gz too (default: standard output)"
    )
    parser.add_argument("--restart", action="store_true", help="do not go on from an earlier run's OUT.partial")
    parser.add_argument("--quiet", action="store_true", help="no progress, no summary")
    add_model_arguments(parser)
    add_sampling_arguments(parser.add_argument_group("samples"))


def add_model_arguments(parser: argparse.ArgumentParser) -> None:
    """Options that say where samples come from, and how a source is put to the model."""
    model = parser.add_argument_group("model")
    model.add_argument("--model", metavar="NAME_OR_FOLDER", required=True, help="a folder, or a name of hub or server")
    model.add_argument("--device", metavar="NAME", help="cpu, cuda, cuda:1, ... (default: cuda where there is one)")
    model.add_argument("--dtype", metavar="NAME", help="float32, bfloat16, ... (default: float32 on a CPU)")
    model.add_argument("--threads", type=count, metavar="N", help="of the CPU")
    model.add_argument(
        "--source-language", metavar="NAME", help="a code of the model's (eng_Latn), or a name for prompts"
    )
    model.add_argument("--target-language", metavar="NAME", help="the same (deu_Latn, de, German)")
    model.add_argument(
        "--prefix", default="", metavar="TEXT", help="before each source: a task, as T5 wants, or >>deu<<"
    )
    prompt = parser.add_argument_group("prompt of a language model")
    prompt.add_argument(
        "--prompt", metavar="TEXT_OR_FILE", help="with {source}, {target}, {source_language}, {target_language}"
    )
    prompt.add_argument("--exemplars", metavar="FILE", help="shown before: .tsv, or .jsonl with source and reference")
    prompt.add_argument("--shots", type=count, default=3, metavar="K", help="the first K exemplars (default: 3)")
    prompt.add_argument("--instruction", default="", metavar="TEXT", help="before all; the system message of a chat")
    prompt.add_argument("--chat", action="store_true", help="as a conversation, by the model's chat template")
    prompt.add_argument("--stop", action="append", metavar="TEXT", help=r"ends a text (default: what follows {target})")
    server = parser.add_argument_group("server")
    server.add_argument("--server", metavar="URL", help="an OpenAI-compatible endpoint, such as http://host:8000/v1")
    server.add_argument(
        "--key-variable",
        default=KEY_VARIABLE,
        metavar="NAME",
        help=f"the environment variable with the key (default: {KEY_VARIABLE})",
    )
    server.add_argument("--concurrency", type=count, default=8, metavar="N", help="requests at a time (default: 8)")
    server.add_argument(
        "--server-set",
        action="append",
        default=[],
        metavar="OPTION=VALUE",
        help="more for each request, such as top_k=-1",
    )
    server.add_argument("--retries", type=whole, default=6, metavar="N", help="for a request that fails (default: 6)")


def add_sampling_arguments(samples: argparse._ArgumentGroup) -> None:
    """Options that say what is drawn."""
    samples.add_argument("--samples", type=count, metavar="N", help="for each source (default: 1024)")
    samples.add_argument(
        "--sampling",
        metavar="NAME",
        help="ancestral, epsilon, eta, top-k, top-p, min-p or typical (default: epsilon; of a server: ancestral)",
    )
    for name in PARAMETERS:
        samples.add_argument(f"--{name}", type=float, metavar="X", help=f"the parameter of {name} sampling")
    samples.add_argument("--temperature", type=float, default=1.0, metavar="T", help="(default: 1)")
    samples.add_argument(
        "--distinct", action="store_true", help="go on until N texts are distinct; weights say how often"
    )
    samples.add_argument("--greedy", action="store_true", help="the most probable token each time, no sampling")
    samples.add_argument("--beam", type=count, metavar="K", help="beam search with K beams, no sampling")
    samples.add_argument("--length-penalty", type=float, default=1.0, metavar="X", help="of beam search (default: 1)")
    samples.add_argument(
        "--max-new-tokens", type=count, default=256, metavar="N", help="of a sample, at most (default: 256)"
    )
    samples.add_argument("--batch", type=count, metavar="N", help="prefixes computed at a time (default: what fits)")
    samples.add_argument("--seed", type=whole, default=0, help="of all that is drawn at random (default: 0)")


def run(options: argparse.Namespace) -> None:
    """Read, draw, write; progress on a terminal, a summary at the end."""
    from minrisk.formats import open_output, replaceable, write_jsonl
    from minrisk.generation.sources import read_sources

    check_output(options.output, options.sources)
    wish = wish_of(options)
    prompt = prompt_of(options)
    to_pipe = options.output == "-"
    with redirect_stdout(sys.stderr):  # What libraries print must not get between the samples.
        model = model_of(options, prompt)
    shown = not options.quiet and not (to_pipe and sys.stdout is not None and sys.stdout.isatty())
    with Meter(wish, shown) as meter:
        sources = read_sources(options.sources, meter.opened)
        if to_pipe or not replaceable(options.output):
            with open_output(options.output) as file, redirect_stdout(sys.stderr):
                write_jsonl(_flushed(meter.counted(completed(model, sources, wish)), file), file)
        else:
            _to_file(options, model, sources, wish, meter)
    if not options.quiet:
        print("\n".join([*(f"minrisk: note: {note}" for note in model.warnings), meter.summary()]), file=sys.stderr)


def _to_file(options: argparse.Namespace, model: Model, sources: Iterator[Source], wish: Wish, meter: Meter) -> None:
    from minrisk.generation.journal import Journal

    with Journal(options.output, {**model.settings, **wish.settings}, options.restart) as journal:
        if len(journal) and not options.quiet:
            print(f"minrisk: going on after {len(journal):,} sources that are done", file=sys.stderr)
        kept = f"what is done is kept in {journal.partial}; the same command goes on from there"
        try:
            with redirect_stdout(sys.stderr):
                made = journaled(model, sources, wish, journal, meter.counted)
        except MinriskError as error:
            if not journal.empty:
                error.add_note(kept)
            raise
        except KeyboardInterrupt:
            raise KeyboardInterrupt(*([] if journal.empty else [kept])) from None
        journal.finish(made)


def journaled(
    model: Model,
    sources: Iterable[Source],
    wish: Wish,
    journal: Journal,
    counted: Callable[[Iterator[dict[str, Any]]], Iterator[dict[str, Any]]],
) -> int:
    """Draw what the journal has not; how many sources there are."""
    shelf = Shelf(journal)
    for number, record in enumerate(counted(completed(model, shelf.missing(sources), wish, shelf))):
        journal.add(shelf.places[number], record)
    return shelf.seen


class Shelf:
    """A journal for the sources that are missing in it, numbered from 0."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self.places: list[int] = []
        self.seen = 0

    def missing(self, sources: Iterable[Source]) -> Iterator[Source]:
        for position, source in self._journal.missing(self._counted(sources)):
            self.places.append(position)
            yield source

    def _counted(self, sources: Iterable[Source]) -> Iterator[Source]:
        for source in sources:
            self.seen += 1
            yield source

    def receive(self, number: int, received: list[Any]) -> None:
        self._journal.receive(self.places[number], received)

    def received(self, number: int) -> list[Any]:
        return self._journal.received(self.places[number])


def completed(
    model: Model, sources: Iterable[Source], wish: Wish, keeper: Keeper | None = None
) -> Iterator[dict[str, Any]]:
    """The records with the settings that made them."""
    settings = {**model.settings, **wish.settings}
    for record in model.records(sources, wish, keeper):
        yield {**record, "generation": settings}


def wish_of(options: argparse.Namespace) -> Wish:
    """What is to be drawn."""
    from minrisk.generation.wish import Wish

    if options.greedy and options.beam:
        raise InputError("--greedy and --beam exclude one another")
    search = options.greedy or options.beam is not None
    if search and options.distinct:
        raise InputError("--distinct goes with sampling; beam search gives distinct texts")
    drawing = [name for name in ("sampling", *PARAMETERS) if getattr(options, _key(name)) is not None]
    if search and (drawing or options.temperature != 1):
        raise InputError(f"--{(drawing or ['temperature'])[0]} goes with sampling, not with --greedy or --beam")
    if options.beam is None and options.length_penalty != 1:
        raise InputError("--length-penalty goes with --beam")
    return Wish(
        samples=options.samples or (1 if search else 1024),
        sampling=None if search else _sampling(options),
        beams=options.beam or 1,
        length_penalty=options.length_penalty,
        distinct=options.distinct,
        longest=options.max_new_tokens,
        seed=options.seed,
        batch=options.batch,
    )


def _sampling(options: argparse.Namespace) -> Sampling:
    from minrisk.generation.sampling import Sampling

    given = {name: getattr(options, _key(name)) for name in PARAMETERS}
    named = [name for name, value in given.items() if value is not None]
    if len(named) > 1:
        raise InputError(f"one truncation at a time: {' and '.join(f'--{name}' for name in named)} exclude one another")
    # Servers do not offer what is best for MBR.
    kind = options.sampling or (named[0] if named else "ancestral" if options.server else "epsilon")
    if named and named[0] != kind:
        raise InputError(f"--{named[0]} does not go with --sampling {kind}")
    return Sampling(kind, given.get(kind), options.temperature)


def _key(name: str) -> str:
    return name.replace("-", "_")


def prompt_of(options: argparse.Namespace) -> Prompt | None:
    """How sources are put to a language model; None: nothing was said about it."""
    from minrisk.generation.prompting import CHAT, FEW_SHOT, Prompt, read_exemplars

    spoken = options.chat or options.server is not None
    if not (spoken or options.prompt or options.exemplars or options.instruction or options.stop):
        return None
    template = options.prompt or (CHAT if options.chat else FEW_SHOT)
    if options.prompt and os.path.isfile(options.prompt):
        with open(options.prompt, encoding="utf-8") as file:
            try:
                template = file.read()
            except UnicodeDecodeError as error:
                raise InputError(f"{options.prompt}: not UTF-8 at byte {error.start + 1}") from None
    return Prompt(
        template=template.replace("\\n", "\n"),
        exemplars=read_exemplars(options.exemplars, options.shots) if options.exemplars else (),
        languages=(options.source_language, options.target_language),
        instruction=options.instruction,
        chat=options.chat,
        stops=None if options.stop is None else [stop.replace("\\n", "\n") for stop in options.stop],
    )


def model_of(options: argparse.Namespace, prompt: Prompt | None) -> Model:
    """The model or server that was named."""
    _check_place(options)
    if options.server is not None:
        from minrisk.generation.server import Endpoint, ServerModel

        key = os.environ.get(options.key_variable, "").strip() or None
        if key is None and options.key_variable != KEY_VARIABLE:
            raise InputError(f"the environment variable {options.key_variable} (--key-variable) is not set")
        given = parse_settings(options.server_set)
        more = {name: text if name in AS_TEXT else _json(text) for name, text in given.items()}
        endpoint = Endpoint(options.server, options.model, key, options.concurrency, options.retries, more)
        assert prompt is not None
        return ServerModel(endpoint, prompt)
    from minrisk.generation.local import LocalModel, Place, set_threads

    if options.threads is not None:
        set_threads(options.threads)
    place = Place(
        name=options.model,
        device=options.device,
        dtype=options.dtype,
        source_language=options.source_language,
        target_language=options.target_language,
        prefix=options.prefix,
    )
    return LocalModel(place, prompt)


def _check_place(options: argparse.Namespace) -> None:
    """Raise where an option would be ignored."""
    local = [name for name in ("device", "dtype", "threads", "prefix", "batch") if getattr(options, name)]
    if options.server is not None and local:
        raise InputError(f"--{local[0]} goes with a model on this machine, not with --server")
    if options.server is None and options.server_set:
        raise InputError("--server-set goes with --server")


def _json(text: str) -> Any:
    """A number, true, false, a list, ... where the text is one; else the text."""
    try:
        return json.loads(text)
    except ValueError:
        return text


class Meter:
    """Counts what is made; on a terminal it shows sources, samples a second and the time left."""

    def __init__(self, wish: Wish, shown: bool) -> None:
        self._samples = 0
        self._sources = 0
        self._unfinished = 0
        self._short = 0
        self._wished = wish.samples
        self._input: Input | None = None
        self._begin = time.monotonic()
        self._status: Any = None
        self._shown = shown and sys.stderr.isatty()

    def __enter__(self) -> Meter:
        if self._shown:
            from rich.console import Console

            self._status = Console(stderr=True).status("reading")
            self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._status is not None:
            self._status.stop()

    def opened(self, source: Input) -> None:
        """Measure progress by how much of this input has been read."""
        self._input = source

    def counted(self, records: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        """The records, counted as they pass."""
        for record in records:
            self._sources += 1
            self._samples += len(record["hypotheses"])
            self._unfinished += len(record.get("unfinished", ()))
            self._short += len(record["hypotheses"]) < self._wished
            if self._status is not None:
                self._status.update(self.line())
            yield record

    def line(self) -> str:
        """What is shown under way."""
        seconds = max(1e-9, time.monotonic() - self._begin)
        shown = f"{self._sources:,} sources, {self._samples:,} samples, {self._samples / seconds:,.0f} samples/s"
        share = self._input.share if self._input is not None else None
        if not share:
            return shown
        left = round(seconds * (1 / share - 1))
        return f"{shown}, {left // 3600}:{left // 60 % 60:02}:{left % 60:02} left"

    def summary(self) -> str:
        """What is said at the end."""
        seconds = max(1e-9, time.monotonic() - self._begin)
        parts = [f"{self._sources:,} source{'s' if self._sources != 1 else ''}, {self._samples:,} samples"]
        parts.append(f"{seconds:.2f} s, {self._samples / seconds:,.0f} samples/s")
        if self._unfinished:
            parts.append(f"{self._unfinished:,} samples were cut off at the limit (--max-new-tokens)")
        if self._short:
            parts.append(f"{self._short:,} sources have fewer samples than were wished for")
        return "; ".join(parts)


def _flushed(records: Iterable[dict[str, Any]], file: IO[bytes]) -> Iterator[dict[str, Any]]:
    """The records, each on its way to the reader of a pipe before the next is waited for."""
    for record in records:
        yield record
        file.flush()


def check_output(path: str, sources: str) -> None:
    """Raise for a file that samples cannot go to."""
    if path.lower().endswith((".parquet", ".txt", ".txt.gz")):
        raise InputError(f"{path}: samples are written as JSON Lines; name it .jsonl or .jsonl.gz")
    if os.path.isfile(path) and os.path.exists(sources) and os.path.samefile(path, sources):
        raise InputError(f"{path}: is read from; the output must have another name")
