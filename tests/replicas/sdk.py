"""Clients of Python's official SDK at a balancer: `sdk.py URL TOKEN MODE COUNT` prints one line for each that failed."""

import asyncio
import sys

import httpx2
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import ElicitResult

CALLS = 8


async def answer(_context, _params):
    return ElicitResult(action="accept", content={"name": "Ada"})


async def work(url, token, mode, number):
    """One client: it lists, calls, and answers a question."""
    async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=20) as http:
        transport = streamable_http_client(url, http_client=http)
        async with Client(transport, mode=mode, elicitation_callback=answer) as client:
            tools = {tool.name for tool in (await client.list_tools()).tools}
            assert tools == {"s__work", "s__look", "s__ask"}, tools
            for call in range(CALLS):
                result = await client.call_tool("s__work", {"id": f"sdk-{mode}-{number}-{call}"})
                assert not result.is_error, result
            result = await client.call_tool("s__ask", {"id": f"sdk-{mode}-{number}-ask"})
            assert "Ada" in result.content[0].text, result


async def main():
    url, token, mode, count = sys.argv[1:]
    clients = (asyncio.wait_for(work(url, token, mode, number), 30) for number in range(int(count)))
    for outcome in await asyncio.gather(*clients, return_exceptions=True):
        if outcome is not None:
            print(repr(outcome))


asyncio.run(main())
