"""Runs the tests of the library: `python packages/python/test.py LOGIC.WASM TOOLGATE`, where `wasmtime` is installed.

By default they are about the library in this tree; with `--installed`, about the one that is installed.
"""

import os
import shutil
import sys
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent


def main():
    installed = "--installed" in sys.argv[1:]
    logic, program = [argument for argument in sys.argv[1:] if argument != "--installed"]
    os.environ["TOOLGATE_TEST_LOGIC"] = str(Path(logic).resolve())
    os.environ["TOOLGATE_TEST_PROGRAM"] = str(Path(shutil.which(program) or program).resolve())
    if not installed:
        sys.path.insert(0, str(HERE))
        os.environ["PYTHONPATH"] = str(HERE)  # for the programs that tests start
    else:
        sys.path.remove(str(HERE))  # where Python found this file
    tests = unittest.defaultTestLoader.discover(str(HERE / "tests"))
    sys.exit(not unittest.TextTestRunner().run(tests).wasSuccessful())


if __name__ == "__main__":
    main()
