"""A Redis of its own, and replicas of a gateway that share it."""

import http.client
import json
import os
import select
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
        self.port, self.listeners = free_port(), []
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

    def listen(self, channel):
        """Listens to a channel, and returns a list that gets its messages."""
        heard, environment = [], {**os.environ, "REDISCLI_AUTH": PASSWORD}
        asked = ["redis-cli", "-p", str(self.port), "SUBSCRIBE", channel]
        process = subprocess.Popen(asked, env=environment, stdout=subprocess.PIPE, text=True)
        self.listeners.append(process)

        def read():
            # A message is three texts after its kind: the channel, and the lines of what was sent.
            lines = (line.rstrip("\n") for line in process.stdout)
            for line in lines:
                if line == "message":
                    next(lines)
                    sender = next(lines)
                    heard.append(f"{sender}\n{next(lines)}")

        threading.Thread(target=read, daemon=True).start()
        until("redis-cli listens", lambda: channel in self.ask("PUBSUB", "NUMSUB", channel))
        return heard

    def signal(self, name):
        self.process.send_signal(name)

    def kill(self):
        for listener in self.listeners:
            listener.kill()
            listener.wait()
        self.listeners.clear()
        self.process.kill()
        self.process.wait()


class Answer:
    """What a gateway answered to a call."""

    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body
        result = self.result = json.loads(body).get("result", {}) if status == 200 else {}
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

    def ask(self, tool, arguments, token):
        """Calls a tool that a person must approve, and returns the result that asks for it."""
        asked = self.call(tool, arguments, token)
        assert asked.result.get("resultType") == "input_required", asked
        return asked.result

    def answer(self, tool, arguments, token, asked):
        """Calls a tool again, with a yes to what was asked."""
        yes = {key: {"action": "accept", "content": {"approve": True}} for key in asked["inputRequests"]}
        return self.call(tool, arguments, token, inputResponses=yes, requestState=asked["requestState"])

    def call(self, tool, arguments, token, **more):
        """Calls a tool as a client of 2026-07-28, which needs no session."""
        meta = {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}},
            "toolgate/outcome": True,
        }
        params = {"name": tool, "arguments": arguments, "_meta": meta, **more}
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
        headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": tool}
        headers["Accept"] = "application/json, text/event-stream"
        return Answer(*self.request("POST", "/mcp", token, body, headers))

    def ready(self):
        status, _, body = self.request("GET", "/ready")
        return status, json.loads(body).get("store")

    def about(self):
        return json.loads(self.request("GET", "/ready")[2])

    def is_reached(self):
        return self.ready() == (200, "reachable")

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(LONG)
        except subprocess.TimeoutExpired:
            self.process.kill()


class Session:
    """A client of 2025-11-25, with a session that any replica can go on with."""

    def __init__(self, replica, token):
        self.replica, self.token, self.id, self.stream = replica, token, None, None
        capabilities = {"elicitation": {}}
        params = {"protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": {"name": "t", "version": "1"}}
        opened = self.send({"id": 1, "method": "initialize", "params": params})
        self.id = opened.headers["Mcp-Session-Id"]
        opened.read()
        self.send({"method": "notifications/initialized"}).read()

    def at(self, replica):
        """The same session at another replica."""
        other = object.__new__(Session)
        other.__dict__.update(self.__dict__, replica=replica)
        return other

    def send(self, message):
        return self.exchange(json.dumps({"jsonrpc": "2.0", **message}))

    def post(self, text):
        response = self.exchange(text)
        return response.status, response.read().decode()

    def exchange(self, text):
        connection = http.client.HTTPConnection("127.0.0.1", self.replica.port, timeout=LONG)
        headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        headers["Authorization"] = f"Bearer {self.token}"
        if self.id:
            headers |= {"Mcp-Session-Id": self.id, "MCP-Protocol-Version": "2025-11-25"}
        connection.request("POST", "/mcp", text, headers)
        return connection.getresponse()

    def ask(self, tool, arguments):
        """Calls a tool that a person must approve, and returns the question."""
        self.stream = self.send({"id": "call", "method": "tools/call", "params": {"name": tool, "arguments": arguments}})
        asked = self.next_message()
        assert asked["method"] == "elicitation/create", asked
        return asked

    def result(self):
        """The result of the call."""
        while "result" not in (message := self.next_message()):
            assert "error" not in message, message
        return message["result"]

    def next_message(self):
        for line in self.stream:
            if line.startswith(b"data:") and (data := line[5:].strip()):
                return json.loads(data)
        raise AssertionError("the stream has ended")

    def open_stream(self):
        """Whether the stream of the call is open and silent."""
        ready, _, _ = select.select([self.stream.fp], [], [], 0.2)
        return not ready
