"""A host of the toolgate component: shows how a call is decided, and makes it. README.md says how to run it."""

import asyncio
import sys

from toolgate import Gate, Logic, StdioServer, ToolgateError


async def main(name, arguments, *command):
    logic, server = Logic(), StdioServer(*command)
    async with Gate(logic, {"demo": server}) as gate:
        await server.open()
        tools = await server.tools()
        print("all but s*: ", ", ".join(logic.filter([tool.name for tool in tools], deny=["s*"])))

        tool = logic.resolve_name(name, {"demo": tools}).tool
        print("the name:   ", f"tool {tool.tool!r} of server {tool.server!r}")

        parsed = logic.parse_arguments(arguments)
        print("the text:   ", f"{parsed.arguments}, read as {parsed.stage}")

        result = await gate.call(name, arguments)
        print("the call:   ", f"{result.code}, sent {result.attempts} time(s)\n{result.text}")


if __name__ == "__main__":
    if len(sys.argv) < 4:
        print("usage: python host.py NAME ARGUMENTS COMMAND [ARG…]", file=sys.stderr)
        sys.exit(2)
    try:
        asyncio.run(main(*sys.argv[1:]))
    except ToolgateError as error:
        sys.exit(f"error: {error}")
