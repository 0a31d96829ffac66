"""The world that the tests run in: which servers there are, what is known of them, and the files that name them."""

import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
import uuid
from dataclasses import dataclass
from pathlib import Path

import gate

LEGACY, MODERN = ("legacy", "2025-11-25"), ("modern", "2026-07-28")
HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Fact:
    """What a server is known to offer."""

    era: tuple[str, str]
    tools: int
    resources: int = 0
    templates: int = 0
    prompts: int = 0
    # Tools that only a client sees that declares roots, sampling and elicitation, as `check` does.
    for_capable_clients: int = 0

    @property
    def all_tools(self):
        return self.tools + self.for_capable_clients


# Measured with a bare JSON-RPC script on the pinned versions.
EVERYTHING = Fact(LEGACY, tools=13, resources=7, templates=2, prompts=4, for_capable_clients=4)
TIME = Fact(MODERN, tools=2)
FACTS = {
    "everything": EVERYTHING,
    "everything-npx": EVERYTHING,
    "everything-http": EVERYTHING,
    "everything-sse": EVERYTHING,
    "everything-ws": EVERYTHING,
    "fs": Fact(LEGACY, tools=14),
    "memory": Fact(LEGACY, tools=9, resources=1),
    "thinking": Fact(LEGACY, tools=1),
    "time": TIME,
    "time-uvx": TIME,
    "time-ws": TIME,
    "git": Fact(MODERN, tools=12),
    "fetch": Fact(MODERN, tools=1, prompts=1),
    "dual": Fact(MODERN, tools=4, resources=1, templates=1, prompts=1),
    "dual-legacy": Fact(LEGACY, tools=4, resources=1, templates=1, prompts=1),
}

GREETING = "good-morning"
TOKEN = "real-token-4f1c9a"


class World:
    """The servers, those on the network running, and a folder for everything that is written."""

    def __init__(self, servers, folder):
        self.servers, self.folder = Path(servers).resolve(), folder
        self.files, self.repository = folder / "files", folder / "repository"
        self.mark, self.running, self.skipped = uuid.uuid4().hex, [], {}
        self.environment = {name: value for name, value in os.environ.items() if name not in STRAY}
        self.environment |= {"NO_PROXY": "127.0.0.1,localhost", "REAL_TOKEN": TOKEN, "TOOLGATE_INPUT_WORD": "spoken"}
        self.entries = {}

    def __enter__(self):
        self.files.mkdir()
        (self.files / "notes.txt").write_text("first line\nsecond line\n")
        make_repository(self.repository, self.environment)
        try:
            self.npm_entries()
            self.python_entries()
        except BaseException:
            self.stop()
            raise
        self.skipped |= {name: "not installed" for name in FACTS.keys() - self.entries.keys() - self.skipped.keys()}
        return self

    def __exit__(self, *_):
        self.stop()

    def npm_entries(self):
        programs = self.servers / "npm/node_modules/.bin"
        if not (self.servers / "npm.done").exists():
            return
        everything = str(programs / "mcp-server-everything")
        self.entries |= {
            "everything": {"command": everything, "args": ["stdio"], "env": {"REAL_GREETING": GREETING}},
            "everything-npx": {
                "command": "npx",
                "args": ["--offline", "--prefix", str(self.servers / "npm"), "mcp-server-everything", "stdio"],
            },
            "fs": {"command": str(programs / "mcp-server-filesystem"), "args": [str(self.files)]},
            "memory": {
                "command": str(programs / "mcp-server-memory"),
                "env": {"MEMORY_FILE_PATH": str(self.folder / "memory.jsonl")},
            },
            # The token is for this server alone: the others must not see it.
            "thinking": {
                "command": str(programs / "mcp-server-sequential-thinking"),
                "env": {"REAL_TOKEN": "${REAL_TOKEN}", "DISABLE_THOUGHT_LOGGING": "true"},
            },
            "everything-http": {"type": "http", "url": self.on_port("http", "/mcp", [everything, "streamableHttp"])},
            "everything-sse": {"type": "sse", "url": self.on_port("http", "/sse", [everything, "sse"])},
            "everything-ws": {"type": "websocket", "url": self.on_websocket(f"{everything} stdio")},
        }

    def python_entries(self):
        programs = self.servers / "python/bin"
        if not (self.servers / "python.done").exists():
            return
        clock = ["mcp-server-time", "--local-timezone", "UTC"]
        url = self.on_own_port("/mcp", [str(programs / "python"), str(HERE / "dual.py")])
        self.entries |= {
            "time": {"command": str(programs / clock[0]), "args": clock[1:]},
            "git": {"command": str(programs / "mcp-server-git"), "args": ["--repository", str(self.repository)]},
            "fetch": {"command": str(programs / "mcp-server-fetch")},
            "dual": {"type": "http", "url": url},
            "dual-legacy": {"type": "http", "url": url, "protocol": "legacy"},
        }
        if (self.servers / "npm.done").exists():
            self.entries["time-ws"] = {
                "type": "websocket",
                "url": self.on_websocket(f"{programs / clock[0]} --local-timezone UTC"),
            }
        if (self.servers / "uv.done").exists():
            self.entries["time-uvx"] = {
                "command": str(programs / "uvx"),
                "args": ["--offline", "--python", str(programs / "python"), "--constraints"]
                + [str(HERE / "requirements.txt"), *clock],
                "env": {"UV_CACHE_DIR": str(self.servers / "uv"), "UV_PYTHON_DOWNLOADS": "never"},
            }

    def on_websocket(self, command):
        program = str(self.servers / "npm/node_modules/.bin/supergateway")
        gateway = [program, "--stdio", command, "--outputTransport", "ws", "--messagePath", "/message", "--port"]
        return self.on_port("ws", "/message", gateway, port_last=True)

    def on_port(self, scheme, path, command, port_last=False):
        """Starts a server that cannot choose its port itself; gives its address."""
        for _ in range(5):
            with socket.create_server(("127.0.0.1", 0)) as free:
                port = free.getsockname()[1]
            process = self.serve(command + [str(port)] if port_last else command, {"PORT": str(port)})
            # Someone else may have taken the port meanwhile: such a server ends at once.
            if listens(process, port):
                return f"{scheme}://127.0.0.1:{port}{path}"
        raise self.did_not_start(command)

    def on_own_port(self, path, command):
        """Starts a server that chooses its port and prints it; gives its address."""
        process = self.serve(command, {}, stdout=subprocess.PIPE)
        ready, _, _ = select.select([process.stdout], [], [], 30)
        port = process.stdout.readline().strip() if ready else ""
        if not port.isdigit():
            raise self.did_not_start(command)
        return f"http://127.0.0.1:{port}{path}"

    def did_not_start(self, command):
        log = (self.folder / "servers.log").read_text()
        return RuntimeError(f"{' '.join(command)} did not start; the servers wrote:\n{log[-2000:]}")

    def serve(self, command, environment, stdout=None):
        with open(self.folder / "servers.log", "a") as log:
            process = subprocess.Popen(
                command,
                cwd=self.folder,
                env={**self.environment, **environment, gate.MARK: self.mark},
                stdin=subprocess.DEVNULL,
                stdout=stdout or log,
                stderr=log,
                text=True,
                start_new_session=True,
            )
        self.running.append(process)
        return process

    def stop(self):
        for process in self.running:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
        for process in self.running:
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            if process.stdout:
                process.stdout.close()
        # The gateway puts its servers into groups of their own.
        gate.gone(self.mark)

    def config(self, name, only=None, extra=None):
        """Writes a `toolgate.yaml` with the servers asked for."""
        entries = {id: entry for id, entry in self.entries.items() if only is None or id in only} | (extra or {})
        lines = ["version: 1", "servers:"]
        for id, entry in entries.items():
            lines.append(f"  {id}:")
            # JSON is YAML: quoted text and flow lists need no writer of our own.
            lines += [f"    {key}: {json.dumps(value)}" for key, value in entry.items()]
        return self.write(f"{name}.yaml", "\n".join(lines) + "\n")

    def write(self, name, text):
        file = self.folder / name
        file.write_text(text)
        return file


# Variables of whoever runs the tests that would lead toolgate or git elsewhere.
STRAY = {"TOOLGATE_CONFIG", "TOOLGATE_LOG", "GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", gate.MARK}


def listens(process, port, limit=30):
    """Waits until a server accepts connections; no if it ends instead."""
    until = time.monotonic() + limit
    while process.poll() is None and time.monotonic() < until:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return True
        except OSError:
            time.sleep(0.05)
    return False


def make_repository(folder, environment):
    """A repository with one commit and one file that nobody has added."""
    folder.mkdir()
    (folder / "kept.txt").write_text("kept\n")
    identity = ["-c", "user.name=toolgate", "-c", "user.email=toolgate@localhost", "-c", "commit.gpgsign=false"]
    for command in (["init", "-q", "-b", "trunk"], ["add", "."], [*identity, "commit", "-q", "-m", "the only commit"]):
        subprocess.run(["git", *command], cwd=folder, env=environment, check=True, stdout=sys.stderr)
    (folder / "new.txt").write_text("new\n")
