"""Replicas of the gateway, the server behind them, and Redis: real processes on loopback."""

import http.client
import json
import re
import secrets
import shutil
import signal
import socket
import sys
import time
from pathlib import Path

from processes import free_port, until

HERE = Path(__file__).resolve().parent
LISTENING = re.compile(r"listening on http://127\.0\.0\.1:(\d+)/mcp")
PORT = re.compile(r"^(\d+)$", re.MULTILINE)
# The principals and their tokens.
ADA, BOB = f"ada-{secrets.token_hex(16)}", f"bob-{secrets.token_hex(16)}"


class Replica:
    """One gateway, which keeps its port when it comes back."""

    def __init__(self, cluster, name, config):
        self.cluster, self.name, self.config = cluster, name, config
        self.port, self.process = free_port(), None

    def start(self):
        """Starts it; it may not be ready yet."""
        command = [self.cluster.toolgate, "--config", self.config, "serve", "--http", f"127.0.0.1:{self.port}"]
        cache = self.cluster.cache
        environment = {"REPLICA": self.name, "XDG_CACHE_HOME": str(cache), "XDG_STATE_HOME": str(cache / self.name)}
        self.process = self.cluster.processes.start(self.name, command, **environment)

    def wait_until_ready(self):
        # The port is what it says, and not what it was told.
        port = int(self.process.wait_for_line(LISTENING)[1])
        assert port == self.port, f"{self.name} listens on {port} and not on {self.port}"
        until(lambda: self.probe("/ready")[0] == 200, 30, f"{self.name} to be ready")

    def probe(self, path, headers=None):
        """The status and the text of a page; status 0 if nobody answers."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        try:
            connection.request("GET", path, headers=headers or {})
            response = connection.getresponse()
            return response.status, response.read().decode()
        except (OSError, http.client.HTTPException) as error:
            return 0, str(error)
        finally:
            connection.close()

    def kill(self):
        self.process.send(signal.SIGKILL)
        self.process.wait(10)

    def terminate(self):
        self.process.send(signal.SIGTERM)


class Cluster:
    """Replicas of one configuration, with the server behind them."""

    def __init__(self, toolgate, processes, cache):
        self.toolgate, self.processes, self.cache = toolgate, processes, cache
        self.key, self.replicas = secrets.token_hex(32), []
        self.upstream = processes.start("upstream", [sys.executable, HERE / "upstream.py"])
        self.upstream_port = int(self.upstream.wait_for_line(PORT)[1])

    def add(self, count=1, **gateway):
        """Starts replicas with these keys of `gateway`, and waits until they are ready."""
        rules = gateway.pop("rules", [])
        headers = {"X-Replica": "${REPLICA}"}
        url = f"http://127.0.0.1:{self.upstream_port}/mcp"
        tokens = [{"principal": name, "token": token} for name, token in (("ada", ADA), ("bob", BOB))]
        config = {
            "version": 1,
            "rules": rules,
            "servers": {"s": {"type": "http", "url": url, "headers": headers, "eager": True}},
            "gateway": {"socket": False, "tokens": tokens, "session_keys": [self.key], **gateway},
        }
        added = []
        for _ in range(count):
            name = f"replica{len(self.replicas) + 1}"
            file = self.processes.folder / f"{name}.yaml"
            # JSON is YAML.
            file.write_text(json.dumps(config, indent=2))
            file.chmod(0o600)
            replica = Replica(self, name, file)
            self.replicas.append(replica)
            added.append(replica)
            replica.start()
        for replica in added:
            replica.wait_until_ready()
        return added

    def executions(self):
        """Which replicas had each call executed, by the id of the call."""
        connection = http.client.HTTPConnection("127.0.0.1", self.upstream_port, timeout=10)
        connection.request("GET", "/executions")
        executions = json.loads(connection.getresponse().read())
        connection.close()
        return executions


class Redis:
    """A Redis server of our own, which keeps nothing on disk."""

    def __init__(self, processes):
        self.processes, self.port = processes, free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self.start()

    def start(self):
        program = shutil.which("redis-server") or "/usr/bin/redis-server"
        options = ["--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--port", str(self.port)]
        self.process = self.processes.start("redis", [program, *options])
        until(self.answers, 10, "redis-server to answer")

    def answers(self):
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                connection.sendall(b"PING\r\n")
                return connection.recv(7) == b"+PONG\r\n"
        except OSError:
            return False

    def kill(self):
        self.process.send(signal.SIGKILL)
        self.process.wait(5)
