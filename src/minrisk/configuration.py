"""Options of methods and utilities: the fields of a frozen dataclass, settable by name from text or Python."""

from __future__ import annotations

import dataclasses
import numbers
import types
import typing
from collections.abc import Mapping
from typing import Any, TypeVar

from minrisk.errors import SECRET, InputError, unknown_name

T = TypeVar("T")

PLAIN = {bool, int, float, str, type(None)}
"""Types of options whose values are checked."""


def described(name: str, configured: object) -> str:
    """`name(option=value,...)` with every option that takes part in the result, and none that is a secret."""
    if not dataclasses.is_dataclass(configured):
        return name
    options = ",".join(
        f"{field.name}={getattr(configured, field.name)}"
        for field in dataclasses.fields(configured)
        if field.repr and not SECRET.search(field.name)
    )
    return f"{name}({options})" if options else name


def configure(kind: str, name: str, factory: type[T], options: Mapping[str, object]) -> T:
    """`factory(**options)`, where text is read as the type of its field and errors name the option."""
    fields = {field.name for field in dataclasses.fields(typing.cast(Any, factory)) if field.init}
    hints = typing.get_type_hints(factory)
    values = {}
    for option, value in options.items():
        if option not in fields:
            raise unknown_name(f"option of {kind} {name!r}:", option, fields)
        values[option] = _read(value, hints[option], f"`{option}` of {kind} {name!r}")
    return factory(**values)


def parse_settings(settings: list[str]) -> dict[str, str]:
    """`["rank=8", ...]` as a dictionary."""
    options = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals or not name:
            raise InputError(f"a setting must look like option=value, got {setting!r}")
        options[name.strip().replace("-", "_")] = value.strip()
    return options


def _read(value: object, hint: Any, place: str) -> object:
    """`value`, read as type `hint` if it is text, and checked if it is not."""
    allowed = typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, types.UnionType) else (hint,)
    names = " or ".join(kind.__name__ for kind in allowed if isinstance(kind, type) and kind is not type(None))
    if not isinstance(value, str):
        if set(allowed) <= PLAIN and not _fits(value, allowed):
            raise InputError(f"{place} must be {names}, got {value!r}")
        return value
    if type(None) in allowed and value.lower() in ("none", ""):
        return None
    if bool in allowed and value.lower() in ("true", "false", "yes", "no", "1", "0"):
        return value.lower() in ("true", "yes", "1")
    for kind in (int, float):
        if kind in allowed:
            try:
                return kind(value)
            except ValueError:
                continue
    if str in allowed or not {bool, int, float} & set(allowed):
        return value
    raise InputError(f"{place} must be {names}, got {value!r}")


def _fits(value: object, allowed: tuple[type, ...]) -> bool:
    """Whether a value that is no text is of one of these plain types; any whole number is a number too."""
    if value is None or isinstance(value, bool):
        return type(value) in allowed
    return (float in allowed and isinstance(value, numbers.Real)) or (
        int in allowed and isinstance(value, numbers.Integral)
    )
