"""The component in its sandbox: it has no imports, and every question has a fuel limit and a memory limit."""

from __future__ import annotations

import os
import platform
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

from wasmtime import Config, Engine, Store, WasmtimeError
from wasmtime import component as wasm

from toolgate import cache
from toolgate.errors import ComponentCrashed, Refused
from toolgate.records import Case, fit, lift, lower
from toolgate.types import FUNCTIONS

FUEL = 20_000_000_000  # for one question
MEMORY = 256 << 20  # for one instance
# What machine code in wheels may use: x86-64-v3, which has been in new processors since 2015.
FEATURES = """has_sse3 has_ssse3 has_cmpxchg16b has_sse41 has_sse42 has_popcnt has_avx has_avx2 has_bmi1 has_bmi2 has_lzcnt
has_fma""".split()


class Component:
    """The compiled component, from which instances are made."""

    def __init__(self, file: str | os.PathLike[str] | None = None) -> None:
        """Loads the component of the package, or of a file that `toolgate component --out FILE` wrote."""
        self.engine = new_engine()
        if file is None:
            self.component = packaged(self.engine)
        else:
            self.component = cache.load(self.engine, Path(file).read_bytes())
        self.linker = wasm.Linker(self.engine)
        # Its few imports are from WASI, and it calls them only to report a panic.
        self.linker.define_unknown_imports_as_traps(self.component)
        self.fuel = FUEL

    def instance(self) -> Instance:
        """Returns a new instance."""
        return Instance(self)


def new_engine(portable: bool = False) -> Engine:
    """Returns an engine; a portable one compiles for other machines with this operating system and architecture."""
    config = Config()
    config.consume_fuel = True
    if portable:
        # With an explicit target, only these features are used, and not all that this processor has.
        machine = platform.machine()
        system = "apple-darwin" if platform.system() == "Darwin" else "unknown-linux-gnu"
        config.target = f"{'aarch64' if machine == 'arm64' else machine}-{system}"
        for feature in FEATURES if machine == "x86_64" else []:
            config.cranelift_flag_enable(feature)
    return Engine(config)


def packaged(engine: Engine) -> wasm.Component:
    """Loads the component of the package, from its machine code if that is for this wasmtime and this processor."""
    package = files("toolgate")
    portable, compiled = package / "logic.wasm", package / "logic.cwasm"
    if not portable.is_file():
        raise FileNotFoundError(
            "this copy of toolgate has no component, as it was not installed from a wheel: write it with "
            "`toolgate component --out logic.wasm`, and pass the file"
        )
    if compiled.is_file():
        try:
            with as_file(compiled) as file:
                return wasm.Component.deserialize_file(engine, str(file))
        except WasmtimeError:
            pass  # it does not fit, so it is compiled here
    return cache.load(engine, portable.read_bytes())


def compile_portably(file: str | os.PathLike[str]) -> bytes:
    """Returns the machine code of a component, for wheels of this operating system and architecture."""
    return bytes(wasm.Component.from_file(new_engine(portable=True), os.fspath(file)).serialize())


class Instance:
    """One instance; after `ComponentCrashed` (a trap or a limit) it cannot be used again."""

    def __init__(self, component: Component) -> None:
        self.store, self.fuel = Store(component.engine), component.fuel
        self.functions: dict[str, wasm.Func] = {}
        self.store.set_limits(memory_size=MEMORY)
        self.store.set_fuel(self.fuel)
        try:
            self.exports = component.linker.instantiate(self.store, component.component)
        except WasmtimeError as trap:
            raise crashed(trap) from trap

    def ask(self, interface: str, function: str, *given: Any) -> Any:
        """Calls a function of any 0.1.x version of the interface, and returns its answer with the types of `types`.

        Raises `Refused` if the answer is an error, `TypeError` or `ValueError` if an argument does not fit, and
        `ComponentCrashed` if the component trapped or exceeded a limit.
        """
        name = f"{interface}#{function}"
        if name not in FUNCTIONS:
            raise Refused(f"there is no function {name}")
        kinds, kind, problem = FUNCTIONS[name]
        if len(given) != len(kinds):
            raise TypeError(f"{name} takes {len(kinds)} arguments, not {len(given)}")
        fitting = [fit(hint, value, f"{name}: argument {n}") for n, (hint, value) in enumerate(zip(kinds, given), 1)]
        lowered = [lower(hint, value) for hint, value in zip(kinds, fitting)]
        called = self.function(interface, function)
        self.store.set_fuel(self.fuel)
        try:
            answer = called(self.store, *lowered)
        except WasmtimeError as trap:
            raise crashed(trap) from trap
        # wasmtime tags the cases of a result only if they could be confused; all our errors are variants or records.
        if problem is not None and isinstance(answer, wasm.Variant):
            if answer.tag != "ok":
                raise refused(lift(problem, answer.payload if answer.tag == "err" else answer))
            answer = answer.payload
        return lift(kind, answer)

    def function(self, interface: str, function: str) -> wasm.Func:
        """Finds an exported function; a component may lack one that this library knows."""
        name = f"{interface}#{function}"
        if name not in self.functions:
            at = self.exports.get_export_index(self.store, f"toolgate:logic/{interface}@0.1.0")
            at = at and self.exports.get_export_index(self.store, function, at)
            found = None if at is None else self.exports.get_func(self.store, at)
            if found is None:
                raise Refused(f"this is no component of world toolgate:logic@0.1: it has no {name}")
            self.functions[name] = found
        return self.functions[name]

    def drop(self, resource: Any) -> None:
        """Frees a resource of the component."""
        self.store.set_fuel(self.fuel)
        try:
            resource.drop(self.store)
        except WasmtimeError as trap:
            raise crashed(trap) from trap


def refused(problem: Any) -> Refused:
    """Returns an error of the component as an exception."""
    told = problem.payload if isinstance(problem, Case) else problem
    message = getattr(told, "message", None) if not isinstance(told, (str, int)) else None
    if message is None:
        message = f"{problem.tag}: {told}" if isinstance(problem, Case) else str(problem)
    return Refused(message, problem)


def crashed(trap: WasmtimeError) -> ComponentCrashed:
    """Returns the last line of a trap, which says why it happened, as an exception."""
    return ComponentCrashed(str(trap).strip().splitlines()[-1].strip())
