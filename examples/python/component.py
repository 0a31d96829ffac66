"""The component in its sandbox: it has no imports, and every question has a fuel limit and a memory limit."""

from wasmtime import Config, Engine, Store, component as wasm
from wasmtime.component import Variant

from typed import fit

FUEL = 20_000_000_000  # for one question
MEMORY = 256 << 20  # for one instance


class Record(wasm.Record):
    """A record for the component. Optional fields may be left out; fields that the WIT does not have are refused."""

    def __init__(self, **fields):
        vars(self).update((name.replace("_", "-"), value) for name, value in fields.items())


class Refused(Exception):
    """The error case of a `result`."""


class Component:
    """The compiled component, from which instances are made."""

    def __init__(self, file):
        config = Config()
        config.consume_fuel = True
        config.cache = True  # compiling takes seconds, so cache the result
        self.engine = Engine(config)
        self.component = wasm.Component.from_file(self.engine, file)
        self.linker = wasm.Linker(self.engine)
        # Its few imports are from WASI, and it calls them only to report a panic.
        self.linker.define_unknown_imports_as_traps(self.component)
        self.fuel = FUEL

    def instance(self):
        return Instance(self)


class Instance:
    """One instance. After a `WasmtimeError` (a trap or a limit) it cannot be used again."""

    def __init__(self, component):
        self.store, self.fuel = Store(component.engine), component.fuel
        self.store.set_limits(memory_size=MEMORY)
        self.store.set_fuel(self.fuel)
        self.exports = component.linker.instantiate(self.store, component.component)

    def ask(self, interface, function, *given):
        """Calls a function of any 0.1.x version of the interface."""
        self.store.set_fuel(self.fuel)
        at = self.exports.get_export_index(self.store, f"toolgate:logic/{interface}@0.1.0")
        at = at and self.exports.get_export_index(self.store, function, at)
        if at is None:
            raise Refused(f"this is no component of world toolgate:logic@0.1: it has no {interface}#{function}")
        func = self.exports.get_func(self.store, at)
        type = func.type(self.store)
        answer = func(self.store, *(fit(wanted, value, name) for (name, wanted), value in zip(type.params, given)))
        if isinstance(type.result, wasm.RecordType):
            return fit(type.result, answer, function.removeprefix("default-"))
        # wasmtime tags the cases of a result only if they could be confused.
        if isinstance(type.result, wasm.ResultType) and isinstance(answer, Variant):
            if answer.tag != "ok":
                raise Refused(getattr(answer.payload, "message", answer))
            answer = answer.payload
        return answer

    def drop(self, resource):
        self.store.set_fuel(self.fuel)
        resource.drop(self.store)
