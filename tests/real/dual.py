"""A server of both eras on Python's `mcp` 2.x over Streamable HTTP: prints its port, then serves `/mcp`."""

import asyncio
import socket

import uvicorn
from mcp.server.mcpserver import Context, MCPServer

server = MCPServer("dual", version="1.0.0", instructions="Greets, adds, counts and rests.", log_level="ERROR")


@server.tool()
def greet(name: str) -> str:
    """Greets someone."""
    return f"Hello, {name}!"


@server.tool()
def add(a: int, b: int) -> dict[str, int]:
    """Adds two integers."""
    return {"sum": a + b}


@server.tool()
async def count(to: int, context: Context) -> str:
    """Counts, and says so at each step."""
    for step in range(1, to + 1):
        await context.report_progress(step, to)
    return f"counted to {to}"


@server.tool()
async def rest(seconds: float) -> str:
    """Answers late. It has no annotations, so nobody can know whether it may be repeated."""
    await asyncio.sleep(seconds)
    return f"rested for {seconds:g} seconds"


@server.resource("dual://notes")
def notes() -> str:
    """A text that never changes."""
    return "both eras are served here"


@server.resource("dual://squares/{number}")
def square(number: str) -> str:
    """The square of a number."""
    return str(int(number) ** 2)


@server.prompt()
def welcome(name: str) -> str:
    """Asks the model to welcome someone."""
    return f"Please welcome {name}."


async def main():
    listener = socket.create_server(("127.0.0.1", 0))
    # The socket listens already: whoever reads the port may connect at once.
    print(listener.getsockname()[1], flush=True)
    app = server.streamable_http_app(host="127.0.0.1")
    # A client that is killed leaves its streams open; they must not hold up the end.
    config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1)
    await uvicorn.Server(config).serve(sockets=[listener])


asyncio.run(main())
