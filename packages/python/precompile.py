"""Compiles the component for a wheel: `python packages/python/precompile.py LOGIC.WASM OUT.CWASM`, where `wasmtime` is installed.

The machine code is for all processors of this architecture since 2015, and for the major version of wasmtime that is
installed. A library with another one compiles the component itself, once.
"""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from toolgate.component import compile_portably  # noqa: E402


def main():
    component, out = sys.argv[1:]
    Path(out).write_bytes(compile_portably(component))


if __name__ == "__main__":
    main()
