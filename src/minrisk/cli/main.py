"""Entry point: finds the command, turns every foreseen error into one line and an exit code."""

from __future__ import annotations

import argparse
import difflib
import os
import signal
import sys
from collections.abc import Sequence
from typing import Any, NoReturn, Protocol

from minrisk.cli import catalogue, data, decode, evaluate, generate, plan, store, study, translate
from minrisk.errors import InputError, MinriskError, redacted, unknown_name
from minrisk.version import __version__


class Command(Protocol):
    """What a command's module offers; its docstring is the help."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None: ...

    def run(self, options: argparse.Namespace) -> None: ...


COMMANDS: dict[str, Command] = {
    "decode": decode,
    "plan": plan,
    "evaluate": evaluate,
    "generate": generate,
    "translate": translate,
    "data": data,
    "store": store,
    "study": study,
    "methods": catalogue.METHODS_COMMAND,
    "utilities": catalogue.UTILITIES_COMMAND,
}
BAD_INPUT, INTERRUPTED, TERMINATED = 2, 130, 143
LONGEST_MESSAGE = 2000
EXAMPLES = """\
examples:
  minrisk decode samples.jsonl --budget 1/16 -o chosen.jsonl
  minrisk decode samples.txt --num-candidates 64 --format text
  minrisk decode samples.jsonl --utility judge.py:score --method columns --budget 256

A line of samples.jsonl: {"hypotheses": ["A cat sat.", "A cat sat down.", "Dogs!"]}
"""


class Parser(argparse.ArgumentParser):
    """Usage errors are one line too, and offer the nearest option."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(allow_abbrev=False, formatter_class=_Formatter, **settings)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Nothing is unknown to the caller: the parser that meets a strange word knows best what was meant."""
        options, rest = super().parse_known_args(args, namespace)
        if rest:
            self.error(f"unrecognized arguments: {' '.join(rest)}")
        return options, rest

    def error(self, message: str) -> NoReturn:
        given = message.partition("unrecognized arguments: ")[2].split(" ")[0].partition("=")[0]
        near = difflib.get_close_matches(given, list(self._option_string_actions), n=1) if given else []
        raise InputError(message + (f"; did you mean {near[0]}?" if near else f"; see {self.prog} --help"))


class _Formatter(argparse.RawDescriptionHelpFormatter):
    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=32)


def parser() -> Parser:
    """The parser of all commands."""
    top = Parser(
        prog="minrisk",
        description="Minimum Bayes Risk decoding that needs a fraction of the metric calls.",
        epilog=EXAMPLES,
    )
    top.add_argument("-V", "--version", action="version", version=f"minrisk {__version__}")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    for name, command in COMMANDS.items():
        summary = (command.__doc__ or "").strip().partition("\n")[0]
        sub = commands.add_parser(name, help=summary, description=f"{summary[:1].upper()}{summary[1:]}.")
        command.add_arguments(sub)
        sub.set_defaults(run=command.run)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; 0: done, 1: the reader of the output has gone, 2: bad input, 130: interrupted."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if arguments is None:
        signal.signal(signal.SIGTERM, _terminated)
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    try:
        if given and not given[0].startswith("-") and given[0] not in COMMANDS:
            raise unknown_name("command", given[0], COMMANDS)
        options = parser().parse_args(given)
        if options.command is None:
            raise InputError(f"a command is needed: {', '.join(COMMANDS)}; see minrisk --help")
        options.run(options)
        if sys.stdout is not None:
            sys.stdout.flush()
        return 0
    except MinriskError as error:
        return _failed(_noted(error))
    except MemoryError as error:
        return _failed(f"out of memory: {_noted(error)}; fewer samples a segment, or a budget, take less")
    except BrokenPipeError:
        _abandon_output()  # The reader has gone, as in `minrisk decode ... | head`.
        return 1
    except OSError as error:
        _abandon_output()
        return _failed(f"{error.filename or 'output'}: {error.strerror or error}")
    except KeyboardInterrupt as stop:
        print(f"minrisk: interrupted; {str(stop) or 'no output file was written'}", file=sys.stderr)
        return INTERRUPTED


def _noted(error: Exception) -> str:
    """What an exception says, and what has been noted on its way."""
    return "; ".join([str(error), *getattr(error, "__notes__", ())])


def _terminated(*_: object) -> NoReturn:
    """Leave as after Ctrl-C, cleaning up on the way."""
    sys.exit(TERMINATED)


def _abandon_output() -> None:
    """Keep Python from failing once more at exit, over what is left in the buffer of standard output."""
    if sys.__stdout__ is not None and sys.stdout is sys.__stdout__:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.__stdout__.fileno())


def _failed(message: str) -> int:
    line = " ".join(redacted(message).split())
    print(f"minrisk: error: {line[:LONGEST_MESSAGE]}{'...' if len(line) > LONGEST_MESSAGE else ''}", file=sys.stderr)
    return BAD_INPUT


if __name__ == "__main__":
    sys.exit(main())
