"""Installs a wheel into an empty environment and tries it there: `python3 packages/python/test_wheel.py WHEEL`.

It runs the command, each program in Python of the README and of the book, and the tests of the library. pip gets wasmtime
and mypy from its registry.
"""

import os
import re
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent
PAGES = [HERE / "README.md", HERE.parents[1] / "docs" / "src" / "embedding" / "python.md"]
CONFIG = "version: 1\nservers:\n  demo: {command: toolgate, args: [demo-server]}\n"
LIMIT_SECONDS = 600


def main():
    wheel = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        venv.create(folder / "venv", with_pip=True)
        scripts = folder / "venv" / "bin"
        # A cache folder of its own shows what the very first use costs.
        environment = os.environ | {"PATH": f"{scripts}:{os.environ['PATH']}", "XDG_CACHE_HOME": str(folder / "cache")}
        environment.pop("PYTHONPATH", None)

        def run(what, *command):
            began = time.monotonic()
            limits = {"timeout": LIMIT_SECONDS, "check": False, "cwd": folder, "env": environment}
            ran = subprocess.run(command, capture_output=True, text=True, **limits)
            if ran.returncode != 0:
                sys.exit(f"{what}: exit code {ran.returncode}\n{ran.stdout}{ran.stderr}")
            print(f"ok {what} ({time.monotonic() - began:.2f} s)", flush=True)
            return ran.stdout

        python, toolgate = scripts / "python", scripts / "toolgate"
        run("pip installs the wheel", python, "-m", "pip", "install", "--quiet", wheel)
        answer = run("the command calls a tool", toolgate, "call", "demo__add", "a: 1, b: 2")
        assert answer == "3\n", answer
        first = 'from toolgate import Logic; print(Logic().parse_arguments("a: 1").arguments)'
        assert run("the first decision ever", python, "-c", first) == '{"a":1}\n'
        run("the first decision of a later program", python, "-c", first)

        (folder / "toolgate.yaml").write_text(CONFIG)
        has_settings = subprocess.run([toolgate, "settings", "--help"], capture_output=True, check=False).returncode == 0
        for page in PAGES:
            for number, block in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL), 1):
                if "from_file" in block and not has_settings:
                    print(f"left out: {page.name}, program {number}, since this toolgate has no command `settings`")
                    continue
                run(f"{page.name}, program {number}", python, "-W", "error", "-c", block)
        run("pip installs mypy", python, "-m", "pip", "install", "--quiet", "mypy")
        library = run("where the library is", python, "-c", "import toolgate; print(toolgate.__path__[0], end='')")
        run("the tests", python, HERE / "test.py", "--installed", Path(library, "logic.wasm"), toolgate)
        run("pip uninstalls all of it", python, "-m", "pip", "uninstall", "--quiet", "--yes", "toolgate")
        assert not toolgate.exists() and not Path(library).exists(), "something is left"


if __name__ == "__main__":
    main()
