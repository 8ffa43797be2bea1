"""Entry point: finds the command, turns every foreseen error into one line and an exit code."""

from __future__ import annotations

import argparse
import difflib
import os
import sys
from collections.abc import Sequence
from typing import NoReturn, Protocol

from minrisk.cli import catalogue, decode
from minrisk.errors import InputError, MinriskError, unknown_name
from minrisk.version import __version__


class Command(Protocol):
    """What a command's module offers; its docstring is the help."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None: ...

    def run(self, options: argparse.Namespace) -> None: ...


COMMANDS: dict[str, Command] = {
    "decode": decode,
    "methods": catalogue.METHODS_COMMAND,
    "utilities": catalogue.UTILITIES_COMMAND,
}
INTERRUPTED = 130


class Parser(argparse.ArgumentParser):
    """Usage errors are one line too, and offer the nearest option."""

    def error(self, message: str) -> NoReturn:
        given = message.partition("unrecognized arguments: ")[2].split(" ")[0].partition("=")[0]
        near = difflib.get_close_matches(given, list(self._option_string_actions), n=1) if given else []
        hint = f"; did you mean {near[0]}?" if near else f"; see {self.prog} --help"
        raise InputError(message + hint)


def parser() -> Parser:
    """The parser of all commands."""
    top = Parser(
        prog="minrisk",
        description="Minimum Bayes Risk decoding that needs a fraction of the metric calls.",
        allow_abbrev=False,
    )
    top.add_argument("--version", action="version", version=f"minrisk {__version__}")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, command in COMMANDS.items():
        summary = (command.__doc__ or "").strip().partition("\n")[0]
        sub = commands.add_parser(name, help=summary, description=command.__doc__, allow_abbrev=False)
        command.add_arguments(sub)
        sub.set_defaults(run=command.run)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; 0: done, 2: bad input, 130: interrupted."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        if given and not given[0].startswith("-") and given[0] not in COMMANDS:
            raise unknown_name("command", given[0], COMMANDS)
        options, rest = parser().parse_known_args(given)
        if rest:
            _sub_parser(given[0]).error(f"unrecognized arguments: {' '.join(rest)}")
        options.run(options)
        sys.stdout.flush()
        return 0
    except MinriskError as error:
        return _failed(str(error))
    except BrokenPipeError:
        # The reader has gone, as in `minrisk decode ... | head`; keep Python from complaining at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        return _failed(f"{error.filename or 'output'}: {error.strerror or error}")
    except KeyboardInterrupt:
        print("minrisk: interrupted; no output file was written", file=sys.stderr)
        return INTERRUPTED


def _sub_parser(command: str) -> Parser:
    sub = Parser(prog=f"minrisk {command}", allow_abbrev=False)
    COMMANDS[command].add_arguments(sub)
    return sub


def _failed(message: str) -> int:
    print(f"minrisk: error: {' '.join(message.split())}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
