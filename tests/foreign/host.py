"""A host that knows nothing of toolgate: Python's wasmtime, WASI and nothing else linked.

Run as `python tests/foreign/host.py logic.wasm`, where `pip install wasmtime` was run and
`toolgate component --out logic.wasm` wrote the file.
"""

import json
import sys

from wasmtime import Engine, Store, WasiConfig
from wasmtime.component import Component, Linker


class Logic:
    """The component, with a function for each of its exports."""

    def __init__(self, file):
        engine = Engine()
        linker = Linker(engine)
        linker.add_wasip2()
        self.store = Store(engine)
        self.store.set_wasi(WasiConfig())
        self.instance = linker.instantiate(self.store, Component.from_file(engine, file))

    def __call__(self, interface, function, *arguments):
        at = self.instance.get_export_index(self.store, f"toolgate:logic/{interface}@0.1.0")
        at = self.instance.get_export_index(self.store, function, at)
        return self.instance.get_func(self.store, at)(self.store, *arguments)


def main(file):
    logic = Logic(file)
    passed = 0

    def check(found, expected):
        nonlocal passed
        assert found == expected, f"found {found!r}, expected {expected!r}"
        passed += 1

    check(logic("naming", "normalize", "kubernetes-server__get_pods"), "kubernetes-server.get_pods")
    parsed = logic("arguments", "parse", "namespace: default, limit: 10", None)
    check(json.loads(parsed.arguments), {"namespace": "default", "limit": 10})
    check(parsed.stage, "key-value")
    check(logic("backoff", "restart-delay", 3, None), 5000)
    check(logic("content", "truncate", "abcdef", 3, "test")[:3], "abc")
    settings = logic("execution", "default-settings", ["demo"])
    gate = logic("execution", "[constructor]gate", settings)
    call = type(settings)()
    call.id, call.name, call.arguments = "1", "demo.echo", "hello"
    started = logic("execution", "[method]gate.begin", gate, call)
    check(started.directive.tag, "connect")
    check(started.directive.payload, ["demo"])
    print(f"{passed} passed, 0 failed")


main(sys.argv[1])
