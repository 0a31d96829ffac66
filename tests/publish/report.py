"""What the ring says of its checks, and how it runs programs: in a home of their own, with a time limit."""

import contextlib
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "replicas"))

from processes import Processes, quiet_environment  # noqa: E402

MB = 1_000_000
LIMIT = 30 * 60  # seconds for one program
LISTENING = re.compile(r"listening on (http://127\.0\.0\.1:\d+)/mcp")


class Report:
    """Prints each check when it is done, and counts those that failed."""

    def __init__(self):
        self.passed = self.failed = 0

    def check(self, what, run):
        """Runs a check, which fails by an exception, and returns what it returns."""
        try:
            result = run()
        except Exception as error:  # whatever happens in a check is its result
            self.line(False, what, f": {type(error).__name__}: {error}")
            return None
        self.line(True, what)
        return result

    def at_most(self, what, size, limit):
        """Compares a number of bytes with a limit."""
        self.line(size <= limit, f"{what:<58}", f"{size / MB:6.1f} MB (at most {limit / MB:.0f} MB)")

    def takes(self, what, run, limit=None, runs=5, without=None):
        """Compares the median of times with a limit; `without` measures, in turns, what does not count."""
        def measure():
            pairs = [(run(), without() if without else 0) for _ in range(runs)]
            took = statistics.median(taken - other for taken, other in pairs)
            beside = f", and {statistics.median(other for _, other in pairs):.2f} s that do not count" if without else ""
            return took, beside

        try:
            took, beside = measure()
        except Exception as error:
            self.line(False, what, f": {type(error).__name__}: {error}")
            return
        bound = f" (at most {limit:.2f} s{beside})" if limit else ""
        self.line(limit is None or took <= limit, f"{what:<58}", f"{took:6.3f} s{bound}")

    def line(self, passed, what, more=""):
        """Prints one line."""
        self.passed, self.failed = self.passed + passed, self.failed + (not passed)
        print("ok  " if passed else "FAIL", f"{what}{more}", flush=True)

    def end(self):
        """Prints how many checks failed, and returns the exit code."""
        print(f"{self.passed} ok, {self.failed} failed")
        return 1 if self.failed else 0


class Shell:
    """Runs programs in a folder that is also their home."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        # The caches that are full already are those of the machine; who measures a first use has another home.
        self.environment = quiet_environment() | {"HOME": str(self.folder), "npm_config_update_notifier": "false"}
        self.environment.pop("PYTHONPATH", None)

    def with_path(self, *folders):
        """Returns a shell with the same home that looks for programs in these folders first."""
        shell = Shell(self.folder)
        shell.environment = self.environment | {"PATH": os.pathsep.join([*map(str, folders), self.environment["PATH"]])}
        return shell

    def online(self):
        """Returns a shell of the person who runs this, whose settings say how to reach registries."""
        shell = Shell(self.folder)
        shell.environment = dict(os.environ)
        return shell

    def run(self, *command, cwd=None, **variables):
        """Runs a program to its end and returns what it printed; it fails unless the program succeeds."""
        command = [str(word) for word in command]
        ran = subprocess.run(
            command, cwd=cwd or self.folder, env=self.environment | variables, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=LIMIT, check=False,
        )
        if ran.returncode != 0:
            raise RuntimeError(f"{' '.join(command)[:300]}: exit code {ran.returncode}\n{(ran.stdout + ran.stderr)[-3000:]}")
        return ran.stdout

    def time(self, *command, cwd=None, **variables):
        """Runs a program, and returns how long it took and what it printed."""
        began = time.monotonic()
        said = self.run(*command, cwd=cwd, **variables)
        return time.monotonic() - began, said

    @contextlib.contextmanager
    def home(self):
        """Gives a shell whose home is empty and goes away."""
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            shell = Shell(folder)
            shell.environment = self.environment | {"HOME": folder}
            yield shell

    def virtual_environment(self, name):
        """Makes a clean virtual environment, and returns the folder of its programs."""
        venv.create(self.folder / name, with_pip=True)
        return self.folder / name / "bin"

    def serves(self, *toolgate):
        """Starts a gateway over HTTP with the demo server behind it, and makes a call through it."""
        config = self.folder / "demo.yaml"
        config.write_text("version: 1\nservers:\n  demo: {command: toolgate, args: [demo-server]}\n")
        with Processes(self.folder / "logs") as processes:
            command = [*toolgate, "serve", "--config", config, "--http", "127.0.0.1:0"]
            gateway = processes.start("gateway", command, **self.environment)
            url = gateway.wait_for_line(LISTENING)[1]
            said = self.run(*toolgate, "call", "demo__add", "a: 1, b: 2", f"--gateway={url}")
            assert said == "3\n", said
            gateway.program.terminate()
            gateway.wait(60)


def programs(page, language):
    """The programs in a language on a page."""
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(), flags=re.DOTALL)
