"""Dataclasses to plain data and back, as JSON holds it.

NaN and the infinities, which JSON does not have, become the words "nan", "inf" and "-inf".
"""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from enum import Enum
from functools import cache
from typing import Any, TypeVar

T = TypeVar("T")


def to_plain(value: Any) -> Any:
    """The value as dicts, lists, texts and numbers."""
    if dataclasses.is_dataclass(value):
        fields = dataclasses.fields(value)
        return {field.name: to_plain(getattr(value, field.name)) for field in fields}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, dict):
        return {key: to_plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [to_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def from_plain(kind: type[T], data: Any) -> T:
    """The value of that type which `to_plain` made `data` from.

    Raises ValueError if the data does not fit the type.
    """
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        if data is None:
            return None
        return from_plain(next(one for one in inner if one is not types.NoneType), data)
    if dataclasses.is_dataclass(kind):
        return _dataclass(kind, data)
    if origin is dict and isinstance(data, dict):
        return {from_plain(inner[0], k): from_plain(inner[1], v) for k, v in data.items()}
    if origin is list and isinstance(data, list):
        return [from_plain(inner[0], item) for item in data]
    if origin is tuple and isinstance(data, list):
        if inner[1:] == (Ellipsis,):
            return tuple(from_plain(inner[0], item) for item in data)
        if len(inner) == len(data):
            return tuple(map(from_plain, inner, data))
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind(data)
    if kind is float and (type(data) in (int, float) or data in ("nan", "inf", "-inf")):
        return float(data)
    if kind in (str, int, bool) and type(data) is kind:
        return data
    raise ValueError(f"{data!r:.100} is no {kind}")


def _dataclass(kind: type[T], data: Any) -> T:
    types_of = _types_of(kind)
    if not isinstance(data, dict) or not data.keys() <= types_of.keys():
        raise ValueError(f"{data!r:.100} is no {kind.__name__}")
    try:
        return kind(**{name: from_plain(types_of[name], value) for name, value in data.items()})
    except TypeError as error:  # a field is missing
        raise ValueError(str(error)) from None


@cache
def _types_of(kind: type) -> dict[str, Any]:
    hints = typing.get_type_hints(kind)
    return {field.name: hints[field.name] for field in dataclasses.fields(kind)}
