"""A host of the toolgate component: shows how a call is decided, and makes it. README.md says how to run it."""

import asyncio
import sys

from component import Component, Record, Refused
from gate import Gate
from mcp_stdio import Failed, Server


async def main(file, name, arguments, *command):
    component = Component(file)
    logic = component.instance()
    async with Server(*command) as server:
        tools = await server.tools(Record)

        names = [tool.name for tool in tools]
        print("all but s*: ", ", ".join(logic.ask("filtering", "filter", Record(deny=["s*"]), names)))

        catalog = logic.ask("catalog", "[constructor]catalog", [Record(server="demo", tools=tools)], False)
        tool = logic.ask("catalog", "[method]catalog.resolve", catalog, name).tool
        print("the name:   ", f"tool {tool.tool!r} of server {tool.server!r}")

        parsed = logic.ask("arguments", "parse", arguments, None)
        print("the text:   ", f"{parsed.arguments}, read as {parsed.stage}")

        result = await Gate(component, {"demo": server}).call(name, arguments)
        print("the call:   ", f"{result.code}, sent {result.attempts} time(s)\n{result.text}")


if __name__ == "__main__":
    if len(sys.argv) < 5:
        print("usage: python host.py LOGIC.WASM NAME ARGUMENTS COMMAND [ARG…]", file=sys.stderr)
        sys.exit(2)
    try:
        asyncio.run(main(*sys.argv[1:]))
    except (Refused, Failed) as refused:
        sys.exit(f"error: {refused}")
