"""A connection to an MCP server that runs as a subprocess and speaks on its standard input and output."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping
from importlib import metadata
from typing import Any

from toolgate.errors import Failed
from toolgate.programs import find_program
from toolgate.server import tool_from_json
from toolgate.types import RpcFailure, Tool

LINE_BYTES, LIST_PAGES, GRACE_SECONDS = 64 << 20, 100, 2
Waiting = dict[int, "asyncio.Future[str]"]


class StdioServer:
    """A server process. Requests run concurrently; cancel one to limit its time."""

    def __init__(
        self,
        *command: str | os.PathLike[str],
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
    ) -> None:
        """Takes the command line; `env` is its whole environment, or, if left out, that of this program.

        A program that PATH does not have is looked for beside this Python.
        """
        self.command, self.env, self.cwd = command, env, cwd
        self.process: Process | None = None
        self.reader: asyncio.Task[None] | None = None
        self.waiting: Waiting = {}
        self.ids, self.opening = itertools.count(1), asyncio.Lock()

    async def __aenter__(self) -> StdioServer:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def running(self) -> Process | None:
        """Returns the process if it runs and its output is open."""
        process = self.process
        if process is None or process.returncode is not None or process.stdout is None or process.stdout.at_eof():
            return None
        return process

    async def open(self) -> None:
        """Starts the program and initializes the session, unless another call has just done so."""
        async with self.opening:
            if self.running():
                return
            await self.close()
            program, *arguments = self.command
            try:
                # In a session of its own, it gets no Ctrl-C of the terminal, and is killed with its children.
                self.process = await asyncio.create_subprocess_exec(
                    find_program(os.fspath(program), self.env), *arguments, stdin=PIPE, stdout=PIPE, limit=LINE_BYTES,
                    env=self.env, cwd=self.cwd, start_new_session=True,
                )  # fmt: skip
            except OSError as error:
                raise Failed("connect", str(error), sent=False) from None
            self.waiting = {}
            self.reader = asyncio.create_task(read(self.process, self.waiting))
            try:
                await self.request("initialize", json.dumps(hello()))
                send(self.process, method="notifications/initialized")
            except BaseException:
                await self.close()
                raise

    async def close(self) -> None:
        """Closes the input, on which a server exits, and kills it with its children if it does not."""
        if self.process is None:
            return
        process, self.process = self.process, None
        if process.stdin:
            process.stdin.close()
        try:
            await asyncio.wait_for(process.wait(), GRACE_SECONDS)
        except asyncio.TimeoutError:
            kill(process)
            await process.wait()
        if self.reader:  # ends with the output, unless a child that is left holds it open
            await asyncio.wait([self.reader], timeout=GRACE_SECONDS)
            self.reader.cancel()

    async def request(self, method: str, params: str) -> str:
        """Sends a request and returns the `result`; both are JSON, and keep every digit."""
        process, waiting = self.running(), self.waiting
        if process is None:
            raise Failed("closed", sent=False)
        number = next(self.ids)
        params = params.replace("\n", " ").replace("\r", " ")  # a message is a line; in JSON, strings have no such breaks
        waiting[number] = asyncio.get_running_loop().create_future()
        write(process, f'{{"jsonrpc":"2.0","id":{number},"method":{json.dumps(method)},"params":{params}}}')
        try:
            return await waiting[number]
        except asyncio.CancelledError:
            send(process, method="notifications/cancelled", params={"requestId": number})
            raise
        finally:
            del waiting[number]

    async def call(self, tool: str, arguments: str) -> str:
        """Sends `tools/call` and returns the `result`."""
        return await self.request("tools/call", f'{{"name":{json.dumps(tool)},"arguments":{arguments}}}')

    async def tools(self) -> list[Tool]:
        """Lists all pages of `tools/list`; entries without a name are skipped."""
        tools: list[Tool] = []
        cursor: dict[str, Any] = {}
        for _ in range(LIST_PAGES):
            match json.loads(await self.request("tools/list", json.dumps(cursor))):
                case {"tools": list(page), **rest}:
                    named = [one for one in page if isinstance(one, dict) and isinstance(one.get("name"), str)]
                    tools += map(tool_from_json, named)
                    cursor = {"cursor": rest.get("nextCursor")}
                case _:
                    raise Failed("protocol", "an answer to tools/list without tools")
            if cursor["cursor"] is None:
                return tools
        raise Failed("protocol", f"tools/list has more than {LIST_PAGES} pages")


def hello() -> dict[str, Any]:
    """Returns what a client says of itself."""
    try:
        version = metadata.version("toolgate")
    except metadata.PackageNotFoundError:  # it runs from the repository
        version = "0"
    client = {"name": "toolgate-python", "version": version}
    return {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}


async def read(process: Process, waiting: Waiting) -> None:
    """Gives each response to the request that waits for it, until the output ends."""
    failed, output = None, process.stdout
    assert output is not None, "the process was started with a pipe"
    try:
        while line := await output.readline():
            take(process, waiting, line)
    except ValueError:
        failed = Failed("protocol", f"a line of more than {LINE_BYTES} bytes", sent=True)
        kill(process)  # the start of the next message is unknown
    code = await process.wait()
    failed = failed or Failed("exited", code if code >= 0 else None, sent=True)
    for answer in waiting.values():
        if not answer.done():
            answer.set_exception(failed)


def take(process: Process, waiting: Waiting, line: bytes) -> None:
    """Takes a line of the server: a request, a response, or something else that it printed."""
    try:
        text = line.decode()
        members = split(text)
    except (ValueError, RecursionError):
        return
    match {name: value for name, (value, _) in members.items()}:
        case {"id": to, "method": str(method)}:
            refusal = {"error": {"code": -32601, "message": "this client cannot do that"}}
            send(process, id=to, **({"result": {}} if method == "ping" else refusal))
        case {"id": int(to), **message} if to in waiting and not waiting[to].done():
            match message:
                case {"error": {"code": int(code), **more}}:
                    told = RpcFailure(code=code, message=str(more.get("message", "")))
                    waiting[to].set_exception(Failed("rpc", told, sent=True))
                case {"result": _}:
                    waiting[to].set_result(members["result"][1])
                case _:
                    waiting[to].set_exception(Failed("protocol", "an answer without a result", sent=True))


def constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def integer(digits: str) -> int | float:
    """Reads an integer; one with more digits than an id or a code has is only looked at."""
    return int(digits) if len(digits) < 19 else float("inf")


DECODER = json.JSONDecoder(parse_constant=constant, parse_int=integer)


def split(text: str) -> dict[str, tuple[Any, str]]:
    """Returns the members of a JSON object, each as a value and as it is written: so every digit of a number is kept."""
    members: dict[str, tuple[Any, str]] = {}
    at = skip(text, 0, "{")
    while text[at] != "}":
        name, at = DECODER.raw_decode(text, at)
        start = skip(text, at, ":")
        value, at = DECODER.raw_decode(text, start)
        members[name] = value, text[start:at]
        at = skip(text, at)
        at = skip(text, at, ",") if text[at] == "," else at
    if text[at + 1 :].strip():
        raise ValueError("more than one JSON value")
    return members


def skip(text: str, at: int, sign: str = "") -> int:
    """Returns the place after white space, the sign, and more white space."""
    while text[at : at + 1] in (" ", "\t", "\r", "\n"):
        at += 1
    if not text.startswith(sign, at) or at >= len(text):
        raise ValueError(f"expected {sign or 'more'!r} at {at}")
    return skip(text, at + len(sign)) if sign else at


def kill(process: Process) -> None:
    """Kills the process, and on Unix its children too."""
    try:
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)  # its group has its number
        else:
            process.kill()
    except ProcessLookupError:
        pass


def send(process: Process, **message: Any) -> None:
    write(process, json.dumps({"jsonrpc": "2.0", **message}))


def write(process: Process, line: str) -> None:
    """Writes without waiting: what does not fit into the pipe stays in memory, and a broken pipe shows when reading."""
    if process.stdin:
        process.stdin.write(line.encode() + b"\n")
