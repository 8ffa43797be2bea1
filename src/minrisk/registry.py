"""Names and what they stand for, imported when asked for: listing names costs nothing."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from importlib import import_module

from minrisk.configuration import configure, parse_settings
from minrisk.errors import InputError, unknown_name


class Registry:
    """A literal table of name -> "module:Class", where each class is a frozen dataclass of options."""

    def __init__(self, kind: str, entries: Mapping[str, str]) -> None:
        self.kind = kind
        self._entries = entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def factory(self, name: str) -> type:
        """The class that a name stands for."""
        known = self._entries.get(name.lower().replace("-", "_") if isinstance(name, str) else name)
        if known is None:
            raise unknown_name(self.kind, name, self._entries)
        module, _, attribute = known.partition(":")
        factory: type = getattr(import_module(module), attribute)
        return factory

    def create(self, name: str, options: Mapping[str, object]) -> object:
        """A configured instance."""
        return configure(self.kind, name, self.factory(name), options)

    def parse(self, text: str) -> object:
        """A configured instance from `name` or `name(option=value, ...)`, as signatures show it."""
        name, parenthesis, rest = text.strip().partition("(")
        if parenthesis and not rest.rstrip().endswith(")"):
            raise InputError(f"a {self.kind} must look like name or name(option=value, ...), got {text!r}")
        options = [option for option in rest.rstrip()[:-1].split(",") if option.strip()]
        return self.create(name.strip(), parse_settings(options))

    def summary(self, name: str) -> str:
        """One line: the first of the class's docstring."""
        return (inspect.getdoc(self.factory(name)) or "").partition("\n")[0]
