"""`minrisk methods` and `minrisk utilities`: what there is, and with which options."""

from __future__ import annotations

import argparse
import dataclasses
import inspect
import shutil
import textwrap
import typing
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from minrisk.registry import Registry

SETTABLE = {bool, int, float, str, type(None), Any}


class Catalogue:
    """A command that lists a registry, or shows one of its entries."""

    def __init__(self, kind: str, summary: str, usage: str) -> None:
        self.kind = kind
        self.usage = usage
        self.__doc__ = summary

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """The one argument."""
        parser.add_argument("name", nargs="?", metavar="NAME", help=f"show one {self.kind} in detail")

    def run(self, options: argparse.Namespace) -> None:
        """Print the list or the details."""
        registry = self._registry()
        lines = self._list(registry) if options.name is None else self._details(registry, options.name)
        print("\n".join(lines))

    def _list(self, registry: Registry) -> list[str]:
        indent = max(len(name) for name in registry) + 2
        lines = []
        for name in registry:
            kind = getattr(registry.factory(name), "kind", "")
            summary = f"{registry.summary(name)} [{kind}]" if kind else registry.summary(name)
            lines += _wrapped(summary, f"{name:{indent}}", " " * indent)
            lines += _options(registry.factory(name), " " * indent)
        return [*lines, "", *_wrapped(f"Use one: minrisk decode SAMPLES {self.usage}", subsequent=" " * 9)]

    def _details(self, registry: Registry, name: str) -> list[str]:
        factory = registry.factory(name)
        kind = getattr(factory, "kind", "")
        title = f"{name} [{kind}]" if kind else name
        return [title, "", inspect.getdoc(factory) or "", "", *(_options(factory) or ["no options"])]

    def _registry(self) -> Registry:
        from minrisk.methods import METHODS
        from minrisk.utilities import UTILITIES

        return METHODS if self.kind == "method" else UTILITIES


METHODS_COMMAND = Catalogue(
    "method", "list the methods, or show one with its options", "--method NAME --budget 1/16 --set OPTION=VALUE"
)
UTILITIES_COMMAND = Catalogue(
    "utility",
    "list the utilities, or show one with its options",
    "--utility NAME --utility-set OPTION=VALUE; or --utility file.py:function for a Python function of your own",
)


def _options(factory: Any, indent: str = "") -> list[str]:
    """Lines with `option=default` of the options that can be given as text; none where there are none."""
    hints = typing.get_type_hints(factory)
    shown = [
        field.name if field.default is dataclasses.MISSING else f"{field.name}={field.default}"
        for field in dataclasses.fields(factory)
        if field.init and _settable(hints[field.name])
    ]
    return _wrapped(f"options: {', '.join(shown)}", indent, f"{indent}         ") if shown else []


def _settable(hint: Any) -> bool:
    parts = typing.get_args(hint)
    return hint in SETTABLE or typing.get_origin(hint) is typing.Literal or (bool(parts) and all(map(_settable, parts)))


def _wrapped(text: str, initial: str = "", subsequent: str = "") -> list[str]:
    width = max(40, min(100, shutil.get_terminal_size().columns))
    return textwrap.wrap(
        text,
        width,
        initial_indent=initial,
        subsequent_indent=subsequent,
        break_on_hyphens=False,
        break_long_words=False,
    )
