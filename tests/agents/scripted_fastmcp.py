"""An agent on FastMCP's client, which has none of its own, and a model for it that follows a script."""

import json
import os

from fastmcp import Client
from fastmcp.client.transports import StdioTransport

# The client leaves it to the agent to call only what is listed.
REFUSES_UNLISTED = False


def start_gateway():
    """Starts a gateway of its own for this program, on standard input and output."""
    arguments = ["serve", "--config", "toolgate.yaml"]
    return Client(StdioTransport("toolgate", arguments, env=dict(os.environ), keep_alive=False))


def connect(url, token):
    """Connects to a gateway over HTTP."""
    return Client(url, auth=token)


async def ask(gateway, model, question):
    """Lets an agent answer a question with the tools of the gateway: it tells the model whatever a call returns."""
    async with gateway:
        model.listed = [tool.name for tool in await gateway.list_tools()]
        while not model.is_done():
            number, name, arguments = model.next_call()
            result = await gateway.call_tool(name, arguments, raise_on_error=False)
            model.answers[number] = (text_of(result), result.is_error)
        return model.last_words


class ScriptedModel:
    """Makes one call after the other, and keeps what it was shown."""

    def __init__(self, calls, last_words):
        self.calls, self.last_words, self.asked = calls, last_words, 0
        self.listed, self.answers = [], {}

    def is_done(self):
        return self.asked == len(self.calls)

    def next_call(self):
        name, arguments = self.calls[self.asked]
        self.asked += 1
        return self.asked - 1, name, json.loads(arguments)


def text_of(result):
    return "".join(getattr(part, "text", "") for part in result.content)


async def call(gateway, name, arguments):
    """Calls a tool without asking whether it is listed."""
    async with gateway:
        return text_of(await gateway.call_tool(name, arguments, raise_on_error=False))
