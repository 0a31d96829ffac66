"""A Redis of its own, and replicas of a gateway that share it."""

import http.client
import json
import os
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path

PASSWORD = "s3cret-of-redis-0123456789"
LONG = 60  # Nothing is awaited longer, in seconds.


def until(what, condition, limit=LONG):
    """Waits until the condition returns something true, and returns that."""
    end = time.monotonic() + limit
    while not (found := condition()):
        if time.monotonic() > end:
            raise AssertionError(f"not within {limit} seconds: {what}")
        time.sleep(0.02)
    return found


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


class Redis:
    """A `redis-server` that keeps nothing on disk."""

    def __init__(self, folder, *options):
        self.folder, self.options = Path(folder), options
        self.port = free_port()
        self.start()

    def start(self):
        command = ["redis-server", "--port", self.port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        command += ["--requirepass", PASSWORD, "--dir", self.folder, *self.options]
        quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self.process = subprocess.Popen([str(part) for part in command], **quiet)
        until("redis-server answers", lambda: self.ask("PING").startswith("PONG"))

    @property
    def url(self):
        return f"redis://:{PASSWORD}@127.0.0.1:{self.port}/1"

    def ask(self, *command):
        environment = {**os.environ, "REDISCLI_AUTH": PASSWORD}
        asked = ["redis-cli", "-p", str(self.port), *command]
        return subprocess.run(asked, env=environment, capture_output=True, text=True, timeout=LONG).stdout

    def calls(self, command):
        """How often it ran a command since `CONFIG RESETSTAT`."""
        for line in self.ask("INFO", "commandstats").splitlines():
            if line.startswith(f"cmdstat_{command}:calls="):
                return int(line.split("=")[1].split(",")[0])
        return 0

    def signal(self, name):
        self.process.send_signal(name)

    def kill(self):
        self.process.kill()
        self.process.wait()


class Answer:
    """What a gateway answered to a call."""

    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body
        result = json.loads(body).get("result", {}) if status == 200 else {}
        self.code = result.get("_meta", {}).get("toolgate/outcome", {}).get("code")
        self.text = " ".join(block.get("text", "") for block in result.get("content", []))

    def __repr__(self):
        return f"{self.status} {self.body}"


class Replica:
    """A `toolgate serve --http`."""

    def __init__(self, toolgate, config, environment=None):
        command = [toolgate, "--config", config, "serve", "--http", "127.0.0.1:0"]
        environment = {**os.environ, **(environment or {})}
        self.process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
        self.log, self.port = [], None
        threading.Thread(target=self.read_log, daemon=True).start()
        until("the gateway listens", lambda: self.port or self.process.poll() is not None)
        assert self.port, self.log

    def read_log(self):
        for line in self.process.stderr:
            self.log.append(line)
            if "listening on http://" in line:
                self.port = int(line.split("/mcp")[0].rsplit(":", 1)[1])

    def request(self, method, path, token=None, body=None, headers=()):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=LONG)
        authorization = {"Authorization": f"Bearer {token}"} if token else {}
        connection.request(method, path, body, {"Content-Type": "application/json", **authorization, **dict(headers)})
        response = connection.getresponse()
        answer = response.status, response.headers, response.read().decode()
        connection.close()
        return answer

    def call(self, tool, arguments, token):
        """Calls a tool as a client of 2026-07-28, which needs no session."""
        meta = {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
            "toolgate/outcome": True,
        }
        params = {"name": tool, "arguments": arguments, "_meta": meta}
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
        headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": tool}
        headers["Accept"] = "application/json, text/event-stream"
        return Answer(*self.request("POST", "/mcp", token, body, headers))

    def ready(self):
        status, _, body = self.request("GET", "/ready")
        return status, json.loads(body).get("store")

    def is_reached(self):
        return self.ready() == (200, "reachable")

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(LONG)
        except subprocess.TimeoutExpired:
            self.process.kill()
