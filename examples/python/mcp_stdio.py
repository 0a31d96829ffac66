"""An MCP server behind the pipes of a subprocess: what a host has anyway, and nothing of toolgate."""

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
    """What failed, in the words of the WIT; where `sent`, the server may have acted on it all the same."""

    def __init__(self, kind, detail=None, sent=False):
        super().__init__(kind if detail is None else f"{kind}: {detail}")
        self.kind, self.detail, self.sent = kind, detail, sent


class Server:
    """Requests run side by side; whoever asks bounds the wait, by cancelling it."""

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
        """Starts the program and shakes hands; one that runs, since another call has just started it, is kept."""
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
        """Ends the input, which a server takes as a goodbye, and the program too if it stays."""
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
        """The `result` of the answer; `params` is JSON text, and goes out as it is."""
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
        """Hands answers to those who wait for them, until the program says nothing more."""
        failed = None
        try:
            while line := await process.stdout.readline():
                take(process, waiting, parse(line))
        except ValueError:
            failed = Failed("protocol", f"a line of more than {LINE_BYTES} bytes", sent=True)
            process.kill()  # nobody knows where the next message would begin
        code = await process.wait()
        failed = failed or Failed("exited", code if code >= 0 else None, sent=True)
        for answer in waiting.values():
            if not answer.done():
                answer.set_exception(failed)

    async def tools(self, record):
        """What `tools/list` says, all pages of it, each made by `record`; what has no name is passed over."""
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
    """What a line says, or nothing where a program has printed something else."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def send(process, **message):
    write(process, json.dumps({"jsonrpc": "2.0", **message}))


def write(process, line):
    """Does not wait: what the pipe has no room for stays in memory, and a pipe that broke shows when it is read."""
    process.stdin.write(line.encode() + b"\n")


def as_tool(listed, record):
    """A tool by the fields of the WIT, whatever a server has put in their places."""
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
