"""Records that accept only what the WIT defines, and their way to the component and back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Generic, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from wasmtime import component as wasm

if TYPE_CHECKING:
    from typing_extensions import Self, dataclass_transform
else:

    def dataclass_transform(**_):
        return lambda cls: cls


Tag = TypeVar("Tag", bound=str)
Payload = TypeVar("Payload")


class UnknownField(AttributeError, TypeError):
    """A record has no field with this name."""


@dataclass(frozen=True)
class Case(Generic[Tag, Payload]):
    """A case of a variant that has a value, such as `Case("label", ["seen"])`; a case without one is its name alone."""

    tag: Tag
    payload: Payload


@dataclass(frozen=True)
class Default:
    """Makes the value of a field that was left out."""

    make: Callable[[], Any]


def fresh(make: Callable[[], Any]) -> Any:
    """Declares a default of which every record gets a copy of its own."""
    return Default(make)


@dataclass_transform(kw_only_default=True)
class Record:
    """A record of the WIT. Its fields have the names of the WIT, with `_` for `-`, and accept only values of their type."""

    if not TYPE_CHECKING:  # type checkers know the fields of each class

        def __init__(self, **fields):
            for name, value in fields.items():
                setattr(self, name, value)
            for name in hints(type(self)):
                if name not in vars(self):
                    vars(self)[name] = default(type(self), name)

        def __setattr__(self, name, value):
            cls = type(self)
            if name not in hints(cls):
                raise unknown(cls, name)
            vars(self)[name] = fit(hints(cls)[name], value, f"{cls.__name__}.{name}")

        def __getattr__(self, name):
            raise AttributeError(name) if name.startswith("__") else unknown(type(self), name)

    def copy(self) -> Self:
        """Returns a deep copy, of which every value is checked again."""
        return type(self)(**vars(self))

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"


HINTS: dict[Any, dict[str, Any]] = {}


def hints(cls: type[Record]) -> dict[str, Any]:
    """Returns the types of a record's fields."""
    if cls not in HINTS:
        HINTS[cls] = get_type_hints(cls, include_extras=True)
    return HINTS[cls]


def default(cls: type[Record], name: str) -> Any:
    """Returns the value of a field that was left out."""
    if name not in vars(cls):
        raise TypeError(f"{cls.__name__} needs a value for {name!r}")
    value = vars(cls)[name]
    return value.make() if isinstance(value, Default) else value


def unknown(cls: type[Record], name: str) -> UnknownField:
    return UnknownField(f"{cls.__name__} has no field {name!r}{hint_at(name, hints(cls))}")


def hint_at(word: object, known: Iterable[str]) -> str:
    """Returns the end of a message about a word that is not known: the one that it is most like, or else all of them."""
    near = get_close_matches(str(word), list(known), 1)
    return f"; did you mean {near[0]!r}?" if near else f"; there are {', '.join(known)}"


def fit(hint: Any, value: Any, where: str) -> Any:
    """Returns a copy of the value that has the type, or raises an error that says where it does not.

    A mapping may stand for a record, and a mapping with one key for a case: so JSON is accepted too.
    """
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType) and NoneType in args:
        return None if value is None else fit(without_none(hint), value, where)
    if origin in (Union, UnionType, Case):
        return fit_case(cases(hint), value, where)
    if origin is Annotated:  # a whole number with its range
        if fit(int, value, where) not in args[1]:
            raise ValueError(f"{where} must be from {args[1][0]} to {args[1][-1]}, not {value!r}")
    elif origin is Literal:
        if value not in args:
            raise ValueError(f"{where} must be one of {', '.join(args)}, not {value!r}{hint_at(value, args)}")
    elif origin is list:
        if not isinstance(value, (list, tuple)):
            raise no_list(args[0], value, where)
        return [fit(args[0], item, f"{where}[{n}]") for n, item in enumerate(value)]
    elif origin is tuple:
        if not isinstance(value, (list, tuple)) or len(value) != len(args):
            raise TypeError(f"{where} must be {len(args)} values, not {value!r}")
        return tuple(fit(arg, item, where) for arg, item in zip(args, value))
    elif isinstance(hint, type) and issubclass(hint, Record):
        if not isinstance(value, (hint, Mapping)):
            raise TypeError(f"{where} must be a record {hint.__name__}, not {value!r}")
        return hint(**(value if isinstance(value, Mapping) else vars(value)))
    elif hint in SIMPLE and (not isinstance(value, SIMPLE[hint][0]) or (isinstance(value, bool) and hint is not bool)):
        raise TypeError(f"{where} must be {SIMPLE[hint][1]}, not {value!r}")
    return value


def as_list(item: Any, given: Any, where: str) -> list[Any]:
    """Returns what is given as a list of items of a type. A text is refused, since it would be split into its letters."""
    if isinstance(given, (str, bytes)) or not isinstance(given, Iterable):
        raise no_list(item, given, where)
    items: list[Any] = fit(list[item], list(given), where)
    return items


def no_list(item: Any, given: object, where: str) -> TypeError:
    """Returns the error about a value that is not a list; one text was probably meant as a list of one."""
    instead = f"; write [{given!r}]" if item is str and isinstance(given, str) else ""
    return TypeError(f"{where} must be a list, not {given!r}{instead}")


def fit_case(known: dict[str, Any], value: Any, where: str) -> Any:
    """Returns a case of a variant: its name, or its name with a value."""
    if isinstance(value, Mapping) and len(value) == 1:
        value = Case(*next(iter(value.items())))
    tag = value.tag if isinstance(value, Case) else value
    if not isinstance(tag, str) or tag not in known:
        raise ValueError(f"{where} must be one of {', '.join(known)}, not {tag!r}{hint_at(tag, known)}")
    if isinstance(value, Case) and known[tag] is not None:
        return Case(tag, fit(known[tag], value.payload, f"{where} {tag!r}"))
    if isinstance(value, Case) or known[tag] is not None:
        wanted = f"the text {tag!r}" if known[tag] is None else f"Case({tag!r}, …) with a value"
        raise TypeError(f"{where} must be {wanted}, not {value!r}")
    return value


def cases(hint: Any) -> dict[str, Any]:
    """Returns the names of a variant's cases with the types of their values, or `None` for a case without a value."""
    found: dict[str, Any] = {}
    for arg in (hint,) if get_origin(hint) is Case else get_args(hint):
        inner = get_args(arg)
        found |= {get_args(inner[0])[0]: inner[1]} if get_origin(arg) is Case else dict.fromkeys(inner)
    return found


def without_none(hint: Any) -> Any:
    """Returns the type of an optional value, if there is one."""
    args = get_args(hint)
    return Union[tuple(arg for arg in args if arg is not NoneType)] if NoneType in args else hint


def lower(hint: Any, value: Any) -> Any:
    """Returns what wasmtime wants for a value that fits."""
    if value is None:
        return None
    hint = without_none(hint)
    origin, args = get_origin(hint), get_args(hint)
    if isinstance(value, Record):
        record = wasm.Record()
        for name, field in hints(type(value)).items():
            setattr(record, name.rstrip("_").replace("_", "-"), lower(field, vars(value)[name]))
        return record
    if origin is list:
        return [lower(args[0], item) for item in value]
    if isinstance(value, str):
        value = well_formed(value)
    known = cases(hint) if origin in (Union, UnionType, Case) else {}
    if isinstance(value, Case):
        return wasm.Variant(value.tag, lower(known[value.tag], value.payload))
    if any(known.values()):
        return wasm.Variant(value) if value in known else value
    return value


def well_formed(text: str) -> str:
    """Replaces lone surrogates, which a text of the component cannot have."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
    return text


def lift(hint: Any, value: Any) -> Any:
    """Returns the typed form of what wasmtime gave."""
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType) and NoneType in args:
        return None if value is None else lift(without_none(hint), value)
    if origin in (Union, UnionType, Case):
        known = cases(hint)
        if not isinstance(value, wasm.Variant):  # wasmtime tags the cases only if their values could be confused
            tag = next(tag for tag, kind in known.items() if isinstance(value, SIMPLE.get(kind, (wasm.Record,))[0]))
            return Case(tag, lift(known[tag], value))
        return value.tag if known[value.tag] is None else Case(value.tag, lift(known[value.tag], value.payload))
    if origin is list:
        return [lift(args[0], item) for item in value]
    if isinstance(hint, type) and issubclass(hint, Record):
        record = hint.__new__(hint)
        for name, field in hints(hint).items():
            vars(record)[name] = lift(field, getattr(value, name.rstrip("_").replace("_", "-")))
        return record
    return value


SIMPLE: dict[Any, tuple[type | tuple[type, ...], str]] = {
    str: (str, "a text"),
    bool: (bool, "True or False"),
    int: (int, "a whole number"),
    float: ((int, float), "a number"),
}
