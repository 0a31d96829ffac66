"""Records that accept only what the WIT defines, so that a misspelt rule is not silently ignored."""

from collections.abc import Mapping
from difflib import get_close_matches

from wasmtime import component as wasm
from wasmtime.component import Variant

INTEGERS = (wasm.U8, wasm.U16, wasm.U32, wasm.U64, wasm.S8, wasm.S16, wasm.S32, wasm.S64)


class Unknown(AttributeError):
    """The WIT has no field with this name."""


class Typed(wasm.Record):
    """A record of a WIT type. Fields have the names of the WIT, with `_` for `-`: `settings.policy.read_only`."""

    __slots__ = ("_type", "_types", "_where")

    def __init__(self, type, given, where):
        object.__setattr__(self, "_type", type)
        object.__setattr__(self, "_types", dict(type.fields))
        object.__setattr__(self, "_where", where)
        for name, value in given.items():
            setattr(self, name, value)
        for name, field in self._types.items():
            if name not in vars(self):
                vars(self)[name] = fit(field, None, f"{where}.{name}")

    def __getattr__(self, name):
        return vars(self)[self._known(name)]

    def __setattr__(self, name, value):
        known = self._known(name)
        vars(self)[known] = fit(self._types[known], value, f"{self._where}.{known}")

    def copy(self):
        """Returns a copy of the record."""
        return fit(self._type, self, self._where)

    def _known(self, name):
        known = name.replace("_", "-")
        if known in self._types:
            return known
        near = get_close_matches(known, self._types, 1)
        hint = f"; did you mean {near[0]!r}?" if near else f"; there are {', '.join(self._types)}"
        raise Unknown(f"{self._where} has no field {name!r}{hint}")


def fit(type, value, where):
    """Returns a copy of the value in which every record is typed; raises an error that names what does not fit."""
    match type:
        case wasm.RecordType():
            if not isinstance(value, (wasm.Record, Mapping)):
                raise TypeError(f"{where} must be a record, not {value!r}")
            return Typed(type, value if isinstance(value, Mapping) else vars(value), where)
        case wasm.ListType():
            if not isinstance(value, (list, tuple)):
                raise TypeError(f"{where} must be a list, not {value!r}")
            element = type.element
            return [fit(element, item, f"{where}[{n}]") for n, item in enumerate(value)]
        case wasm.OptionType():
            return None if value is None else fit(type.payload, value, where)
        case wasm.EnumType():
            if value not in type.names:
                raise ValueError(f"{where} must be one of {', '.join(type.names)}, not {value!r}")
        case wasm.VariantType() if isinstance(value, Variant):
            cases = dict(type.cases)
            if value.tag not in cases:
                raise ValueError(f"{where} must be one of {', '.join(cases)}, not {value.tag!r}")
            payload = cases[value.tag]
            return Variant(value.tag, value.payload if payload is None else fit(payload, value.payload, where))
        case wasm.Bool() if not isinstance(value, bool):
            raise TypeError(f"{where} must be True or False, not {value!r}")
        case wasm.String() if not isinstance(value, str):
            raise TypeError(f"{where} must be a text, not {value!r}")
        case _ if isinstance(type, INTEGERS) and (isinstance(value, bool) or not isinstance(value, int)):
            raise TypeError(f"{where} must be a whole number, not {value!r}")
    return value
