"""The binary as the tests see it: whatever is assumed about its command line and its JSON is said here."""

import json
import os
import signal
import subprocess
import time
import uuid
from collections import Counter
from dataclasses import dataclass, field

# How it is asked.

STDIN = "-"  # `call NAME -` reads the arguments from standard input


def read(server, uri):
    return ["resources", "read", uri, "--server", server, "--json"]


def get(server, prompt, *arguments):
    return ["prompts", "get", f"{server}.{prompt}", *arguments, "--json"]


# Where its JSON keeps what the tests look at.


def counts(said, what):
    """How many tools, resources, templates or prompts each server has."""
    return Counter(each["server"] for each in said[what])


def failed(said):
    """Why which servers are missing."""
    return {each["server"]: each["reason"] for each in said["failed"]}


def checked(said):
    """What `check` found: server → (ok, era, version, number of tools, reason)."""
    keys = ("ok", "era", "version", "tools", "reason")
    return {each["server"]: tuple(each.get(key) for key in keys) for each in said["servers"]}


def names(said):
    """The names in a list of tools, whichever provider it is made for."""
    schemas = {"parameters", "parametersJsonSchema", "input_schema", "inputSchema"}
    if isinstance(said, list):
        return [name for each in said for name in names(each)]
    if not isinstance(said, dict):
        return []
    if "name" in said and schemas & said.keys():
        return [said["name"]]
    return [name for each in said.values() for name in names(each)]


# Running it.


@dataclass
class Answer:
    """How one command ended."""

    code: int
    out: str
    err: str
    seconds: float
    left: list[str] = field(default_factory=list)

    @property
    def said(self):
        """Standard output as JSON, or an empty object: the checks then fail with the whole answer in sight."""
        try:
            return json.loads(self.out)
        except ValueError:
            return {}

    def __str__(self):
        return f"exit code {self.code} after {self.seconds:.1f}s\n stdout: {cut(self.out)}\n stderr: {cut(self.err)}"


class Gate:
    """The binary, with the environment that its servers will inherit."""

    def __init__(self, binary, folder, environment):
        self.binary, self.folder, self.environment = str(binary), folder, environment

    def start(self, config, *arguments, stdin=subprocess.DEVNULL):
        """Starts a command; its servers are found by the mark in their environment."""
        mark = uuid.uuid4().hex
        process = subprocess.Popen(
            [self.binary, "--config", str(config), *arguments],
            cwd=self.folder,
            env={**self.environment, MARK: mark},
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
            # It may run where the signal is ignored, as under nohup or in the background of a shell.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        return process, mark

    def run(self, config, *arguments, text=None, limit=60):
        """Runs a command to its end, and sees what it leaves behind."""
        began = time.monotonic()
        process, mark = self.start(config, *arguments, stdin=subprocess.DEVNULL if text is None else subprocess.PIPE)
        try:
            out, err = process.communicate(text, timeout=limit)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            err += f"\n(the test stopped it after {limit}s)"
        seconds = time.monotonic() - began
        return Answer(process.returncode, out, err, seconds, gone(mark))


MARK = "TOOLGATE_REAL_MARK"


def marked(mark):
    """The living processes that carry a mark: id → command line."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as environment:
                if f"{MARK}={mark}".encode() not in environment.read().split(b"\0"):
                    continue
            with open(f"/proc/{pid}/cmdline", "rb") as command:
                found[int(pid)] = command.read().replace(b"\0", b" ").decode(errors="replace").strip()
        except OSError:
            continue  # it ended while we looked, or it is a zombie
    return found


def gone(mark, limit=2.0):
    """Waits until no process carries the mark; gives the command lines of those that stay, and ends them."""
    until = time.monotonic() + limit
    # The watchdog notices the end of the binary only after it.
    while (living := marked(mark)) and time.monotonic() < until:
        time.sleep(0.02)
    for pid in living:
        try:
            os.kill(pid, 9)
        except ProcessLookupError:
            pass
    return list(living.values())


def cut(text, most=1500):
    return text if len(text) <= most else f"{text[:most]}… ({len(text)} characters)"
