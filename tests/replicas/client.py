"""MCP clients of both eras on plain `http.client`: they repeat nothing and hide nothing."""

import http.client
import itertools
import json
import socket
import time
from contextlib import contextmanager

LEGACY, MODERN = "2025-11-25", "2026-07-28"
NAMESPACE = "io.modelcontextprotocol"
INFO = {"name": "replicas", "version": "1"}
LIMIT = 20  # seconds without a byte, after which a call is one that hangs
LONGEST = 40  # seconds for a whole response, which comments of a silent stream do not make longer


class Failed(Exception):
    """A request without its result: `kind` is `refused` (with its status), `error`, `disconnected` or `hangs`."""

    def __init__(self, kind, detail, status=None):
        super().__init__(f"{kind}: {detail}")
        self.kind, self.status = kind, status


class Client:
    """What both eras have in common: a connection, a token, and requests one after the other."""

    def __init__(self, port, token, keep=True):
        self.port, self.token, self.keep = port, token, keep
        self.connection, self.ids = None, itertools.count(1)

    def exchange(self, method, message=None, **headers):
        """Sends one HTTP request and gives the response, whose body is not read yet."""
        if self.connection is None:
            self.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=LIMIT)
        about = {"Accept": "application/json, text/event-stream", **self.headers(), **headers}
        if self.token:
            about["Authorization"] = f"Bearer {self.token}"
        body = None
        if message is not None:
            body, about["Content-Type"] = json.dumps(message).encode(), "application/json"
        with self.failures():
            self.connection.request(method, "/mcp", body, about)
            return self.connection.getresponse()

    def request(self, method, params, answer_question=None, **headers):
        """Sends a request and gives its result; questions that come before it go to `answer_question`."""
        id = next(self.ids)
        response = self.exchange("POST", {"jsonrpc": "2.0", "id": id, "method": method, "params": params}, **headers)
        for message in self.messages(response):
            if message.get("id") == id and "method" not in message:
                self.done()
                return result_of(message)
            if answer_question and "method" in message and "id" in message:
                answer_question(message)
        self.close()
        raise Failed("disconnected", "the response ended without the result")

    def messages(self, response):
        """The JSON messages of a response, be they one text or events; a response that is none is a failure."""
        if response.status not in (200, 202):
            with self.failures():
                text = response.read().decode(errors="replace")
            self.done()
            raise Failed("refused", f"{response.status} {text[:300]}", response.status)
        if not response.getheader("Content-Type", "").startswith("text/event-stream"):
            with self.failures():
                text = response.read()
            if text:
                yield json.loads(text)
            return
        for event in self.events(response):
            if event.get("data"):
                yield json.loads(event["data"])

    def events(self, response):
        """The events of a stream as maps of their fields, until its end."""
        event, end = {}, time.monotonic() + LONGEST
        while True:
            with self.failures():
                if time.monotonic() > end:
                    raise socket.timeout
                line = response.readline()
            if not line:
                return
            name, _, value = line.decode().rstrip("\r\n").partition(":")
            if line.strip():
                # A line without a name is a comment.
                if name:
                    event[name] = f"{event[name]}\n{value.strip()}" if name in event else value.strip()
            elif event:
                yield event
                event = {}

    @contextmanager
    def failures(self):
        """Makes what the connection does one of our failures."""
        try:
            yield
        except socket.timeout as error:
            self.close()
            raise Failed("hangs", "nothing came in time") from error
        except (OSError, http.client.HTTPException, ValueError) as error:
            self.close()
            raise Failed("disconnected", f"{type(error).__name__} {error}") from error

    def done(self):
        """Ends an exchange whose body was read."""
        if not self.keep:
            self.close()

    def close(self):
        if self.connection:
            self.connection.close()
        self.connection = None


class LegacyClient(Client):
    """A client of 2025-11-25, with a session."""

    def __init__(self, port, token, keep=True, session=None):
        super().__init__(port, token, keep)
        self.session = session

    def headers(self):
        if not self.session:
            return {}
        return {"Mcp-Session-Id": self.session, "MCP-Protocol-Version": LEGACY}

    def open(self, capabilities=None):
        """Opens a session and gives the result of `initialize`."""
        params = {"protocolVersion": LEGACY, "capabilities": capabilities or {}, "clientInfo": INFO}
        message = {"jsonrpc": "2.0", "id": next(self.ids), "method": "initialize", "params": params}
        response = self.exchange("POST", message)
        [answer] = self.messages(response)
        self.done()
        result = result_of(answer)
        self.session = response.getheader("Mcp-Session-Id")
        status, text = self.send({"method": "notifications/initialized"})
        if status != 202:
            raise Failed("refused", f"{status} {text}", status)
        return result

    def call(self, tool, arguments, answer_question=None):
        return self.request("tools/call", {"name": tool, "arguments": arguments}, answer_question)

    def tools(self):
        return self.request("tools/list", {})["tools"]

    def send(self, message):
        """Sends a notification or an answer, and gives the status and the text."""
        response = self.exchange("POST", {"jsonrpc": "2.0", **message})
        with self.failures():
            text = response.read().decode(errors="replace")
        self.done()
        return response.status, text

    def delete(self):
        """Ends the session, and gives the status."""
        response = self.exchange("DELETE")
        with self.failures():
            response.read()
        self.done()
        return response.status

    def stream(self, after=None):
        """Opens the stream of the session, after an event if one is named; the response is not read yet."""
        headers = {"Accept": "text/event-stream"} | ({"Last-Event-ID": after} if after else {})
        return self.exchange("GET", **headers)

    def at(self, port, token=None):
        """The same session by way of another address."""
        return LegacyClient(port, token or self.token, self.keep, self.session)


class ModernClient(Client):
    """A client of 2026-07-28, without a session."""

    def headers(self):
        return {"MCP-Protocol-Version": MODERN}

    def open(self, capabilities=None):
        return self.of_era("server/discover", {}, capabilities)

    def call(self, tool, arguments):
        return self.of_era("tools/call", {"name": tool, "arguments": arguments}, **{"Mcp-Name": tool})

    def tools(self):
        return self.of_era("tools/list", {})["tools"]

    def of_era(self, method, params, capabilities=None, **headers):
        meta = {"protocolVersion": MODERN, "clientCapabilities": capabilities or {}, "clientInfo": INFO}
        params = {**params, "_meta": {f"{NAMESPACE}/{name}": value for name, value in meta.items()}}
        return self.request(method, params, **{"Mcp-Method": method, **headers})


def result_of(answer):
    """The result of a response; an error, of the protocol or of a tool, is a failure."""
    if "error" in answer:
        raise Failed("error", json.dumps(answer["error"]))
    if answer["result"].get("isError"):
        raise Failed("error", text_of(answer["result"]))
    return answer["result"]


def text_of(result):
    return result["content"][0]["text"]
