"""Processes that a scene starts: each with a log, found by its own id, and stopped when the scene ends, however it ends."""

import os
import random
import signal
import socket
import subprocess
import time
from pathlib import Path


class Late(Exception):
    """Something that was waited for did not happen in time."""


class Process:
    """A program that runs, with what it prints in a file."""

    def __init__(self, name, command, log, environment):
        self.name, self.log = name, log
        self.read_from = log.stat().st_size if log.exists() else 0
        with open(log, "ab") as output:
            self.program = subprocess.Popen(
                [str(word) for word in command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=environment,
                cwd=log.parent,
                start_new_session=True,
            )

    def said(self):
        """What this run of the program has printed so far."""
        with open(self.log, "rb") as file:
            file.seek(self.read_from)
            return file.read().decode(errors="replace")

    def wait_for_line(self, pattern, limit=60):
        """The first match in what it prints."""
        def find():
            return pattern.search(self.said()) or self.check_runs()

        return until(find, limit, f"{self.name} to print {pattern.pattern!r}")

    def check_runs(self):
        """Fails if it has ended, since nothing that is waited for will come then."""
        if not self.runs():
            raise Late(f"{self.name} ended with {self.program.returncode}:\n{self.said()[-2000:]}")

    def runs(self):
        return self.program.poll() is None

    def send(self, number):
        if self.runs():
            os.kill(self.program.pid, number)

    def wait(self, limit):
        try:
            return self.program.wait(limit)
        except subprocess.TimeoutExpired:
            raise Late(f"{self.name} did not end within {limit} s") from None

    def stop(self):
        """Ends it by force, with all that is left of its group: none of them keeps anything that could be lost."""
        # The id of one that has ended may belong to somebody else by now.
        if self.runs():
            os.killpg(self.program.pid, signal.SIGKILL)
            self.program.wait()


class Processes:
    """All processes of a scene, and the folder for their files."""

    def __init__(self, folder):
        self.folder, self.running = Path(folder), []
        self.folder.mkdir(parents=True, exist_ok=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        # Those that were started last talk to those before them.
        while self.running:
            self.running.pop().stop()

    def start(self, name, command, **environment):
        process = Process(name, command, self.folder / f"{name}.log", {**quiet_environment(), **environment})
        self.running.append(process)
        return process


def quiet_environment():
    """The environment without what would lead programs elsewhere."""
    stray = ("TOOLGATE_", "XDG_", "OTEL_", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
    return {name: value for name, value in os.environ.items() if not name.upper().startswith(stray)}


def until(condition, limit, what):
    """Waits until a condition is true and gives what it returned."""
    end = time.monotonic() + limit
    while True:
        if found := condition():
            return found
        if time.monotonic() > end:
            raise Late(f"waited {limit} s in vain for {what}")
        time.sleep(0.02)


def free_port():
    """A port that nobody uses, below those that the system gives to outgoing connections.

    A replica comes back on its port, so nobody may take the port while the replica is away.
    """
    for _ in range(100):
        port = random.randint(12_000, 30_000)
        with socket.socket() as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                listener.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue
    raise Late("no free port was found")
