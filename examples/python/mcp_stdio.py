"""An MCP client for a subprocess, independent of toolgate; your host already has one."""

import asyncio
import itertools
import json
from asyncio.subprocess import PIPE

LINE_BYTES, LIST_PAGES, GRACE_SECONDS = 64 << 20, 100, 2
HELLO = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "toolgate-example", "version": "0.1.0"},
}
HINTS = {
    "read_only": "readOnlyHint",
    "destructive": "destructiveHint",
    "idempotent": "idempotentHint",
    "open_world": "openWorldHint",
}


class Failed(Exception):
    """A failure, in the terms of the WIT; if `sent`, the server may have acted on the request."""

    def __init__(self, kind, detail=None, sent=False):
        super().__init__(kind if detail is None else f"{kind}: {detail}")
        self.kind, self.detail, self.sent = kind, detail, sent


class Server:
    """A server process. Requests run concurrently; cancel one to limit its time."""

    def __init__(self, *command):
        self.command, self.process, self.reader, self.waiting = command, None, None, {}
        self.ids, self.opening = itertools.count(1), asyncio.Lock()

    async def __aenter__(self):
        await self.open()
        return self

    async def __aexit__(self, *_):
        await self.close()

    def is_open(self):
        return self.process is not None and self.process.returncode is None and not self.process.stdout.at_eof()

    async def open(self):
        """Starts the program and initializes the session, unless another call has just done so."""
        async with self.opening:
            if self.is_open():
                return
            await self.close()
            try:
                pipes = {"stdin": PIPE, "stdout": PIPE, "limit": LINE_BYTES}
                self.process = await asyncio.create_subprocess_exec(*self.command, **pipes)
            except OSError as error:
                raise Failed("connect", str(error)) from None
            self.waiting = {}
            self.reader = asyncio.create_task(self.read(self.process, self.waiting))
            try:
                await self.request("initialize", json.dumps(HELLO))
                send(self.process, method="notifications/initialized")
            except BaseException:
                await self.close()
                raise

    async def close(self):
        """Closes the input, on which a server exits, and kills the program if it does not."""
        if self.process is None:
            return
        process, self.process = self.process, None
        process.stdin.close()
        try:
            await asyncio.wait_for(process.wait(), GRACE_SECONDS)
        except asyncio.TimeoutError:
            process.kill()
            await process.wait()
        await self.reader

    async def request(self, method, params):
        """Sends a request and returns the `result`; `params` is JSON text and is sent unchanged."""
        if not self.is_open():
            raise Failed("closed")
        id, process, waiting = next(self.ids), self.process, self.waiting
        waiting[id] = asyncio.get_running_loop().create_future()
        write(process, f'{{"jsonrpc":"2.0","id":{id},"method":{json.dumps(method)},"params":{params}}}')
        try:
            return await waiting[id]
        except asyncio.CancelledError:
            send(process, method="notifications/cancelled", params={"requestId": id})
            raise
        finally:
            del waiting[id]

    async def read(self, process, waiting):
        """Gives each response to the request that waits for it, until the output ends."""
        failed = None
        try:
            while line := await process.stdout.readline():
                take(process, waiting, parse(line))
        except ValueError:
            failed = Failed("protocol", f"a line of more than {LINE_BYTES} bytes", sent=True)
            process.kill()  # the start of the next message is unknown
        code = await process.wait()
        failed = failed or Failed("exited", code if code >= 0 else None, sent=True)
        for answer in waiting.values():
            if not answer.done():
                answer.set_exception(failed)

    async def tools(self, record):
        """Returns all pages of `tools/list`, each tool built by `record`; entries without a name are skipped."""
        tools, cursor = [], {}
        for _ in range(LIST_PAGES):
            match await self.request("tools/list", json.dumps(cursor)):
                case {"tools": list(page), **rest}:
                    named = [tool for tool in page if isinstance(tool, dict) and is_text(tool.get("name"))]
                    tools += [as_tool(tool, record) for tool in named]
                    cursor = {"cursor": rest.get("nextCursor")}
                case _:
                    raise Failed("protocol", "an answer to tools/list without tools")
            if cursor["cursor"] is None:
                return tools
        raise Failed("protocol", f"tools/list has more than {LIST_PAGES} pages")


def take(process, waiting, message):
    match message:
        case {"id": to, "method": str(method)}:
            refusal = {"error": {"code": -32601, "message": "this client cannot do that"}}
            send(process, id=to, **({"result": {}} if method == "ping" else refusal))
        case {"id": int(to)} if to in waiting and not waiting[to].done():
            settle(waiting[to], message)


def settle(answer, message):
    match message:
        case {"error": {"code": int(code), **more}} if abs(code) < 1 << 63:
            told = {"code": code, "message": str(more.get("message", ""))}
            answer.set_exception(Failed("rpc", told, sent=True))
        case {"result": result}:
            answer.set_result(result)
        case _:
            answer.set_exception(Failed("protocol", "an answer without a result", sent=True))


def parse(line):
    """Parses a line; returns None if the program printed something else."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def send(process, **message):
    write(process, json.dumps({"jsonrpc": "2.0", **message}))


def write(process, line):
    """Writes without waiting: what does not fit into the pipe stays in memory, and a broken pipe shows when reading."""
    process.stdin.write(line.encode() + b"\n")


def as_tool(listed, record):
    """Converts a listed tool to the record of the WIT, and ignores members of a wrong type."""
    told = listed.get("annotations")
    hints = {hint: told.get(name) for hint, name in HINTS.items()} if isinstance(told, dict) else {}
    return record(
        name=listed["name"],
        description=listed["description"] if is_text(listed.get("description")) else None,
        input_schema=json.dumps(listed["inputSchema"]) if "inputSchema" in listed else None,
        annotations=record(**{hint: value for hint, value in hints.items() if isinstance(value, bool)}),
    )


def is_text(value):
    return isinstance(value, str)
