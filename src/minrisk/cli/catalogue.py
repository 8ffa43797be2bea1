"""`minrisk methods` and `minrisk utilities`: what there is, and with which options."""

from __future__ import annotations

import argparse
import dataclasses
import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from minrisk.registry import Registry


@dataclass(frozen=True)
class Catalogue:
    """A command that lists a registry, or shows one of its entries."""

    kind: str
    __doc__: str

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """The one argument."""
        parser.add_argument("name", nargs="?", metavar="NAME", help=f"show one {self.kind} in detail")

    def run(self, options: argparse.Namespace) -> None:
        """Print the list or the details."""
        registry = self._registry()
        if options.name is None:
            width = max(len(name) for name in registry)
            for name in registry:
                print(f"{name:{width}}  {registry.summary(name)}{_options(registry.factory(name))}")
            return
        factory = registry.factory(options.name)
        print(f"{options.name}{_options(factory)}\n\n{inspect.getdoc(factory)}")

    def _registry(self) -> Registry:
        from minrisk.methods import METHODS
        from minrisk.utilities import UTILITIES

        return METHODS if self.kind == "method" else UTILITIES


METHODS_COMMAND = Catalogue("method", "list the methods, or show one with its options")
UTILITIES_COMMAND = Catalogue("utility", "list the utilities, or show one with its options")


def _options(factory: Any) -> str:
    """` [option=default ...]`, or nothing."""
    shown = [
        field.name if field.default is dataclasses.MISSING else f"{field.name}={field.default}"
        for field in dataclasses.fields(factory)
        if field.init
    ]
    return f" [{', '.join(shown)}]" if shown else ""
