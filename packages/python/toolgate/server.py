"""What a gate wants of a connection to an MCP server, so that you can bring your own."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Protocol

from toolgate.types import Annotations, Tool

HINTS = {
    "read_only": "readOnlyHint",
    "destructive": "destructiveHint",
    "idempotent": "idempotentHint",
    "open_world": "openWorldHint",
}


class Server(Protocol):
    """A connection to one MCP server, which a gate opens when it is needed. Every method may raise `Failed`.

    The gate limits the time of each call, and cancels the method that it waits for. Say `sent=False` in `Failed` only if
    not one byte of a request can have reached the server: this alone keeps a tool from running twice.
    """

    async def open(self) -> None:
        """Opens a session unless there is one that works."""

    async def tools(self) -> list[Tool]:
        """Lists all tools; `tool_from_json` converts each."""

    async def call(self, tool: str, arguments: str) -> str:
        """Sends `tools/call` with the arguments, a JSON object, and returns the `result` of the response as JSON."""

    async def close(self) -> None:
        """Ends the session; `open` may open another one."""


def tool_from_json(listed: Mapping[str, Any]) -> Tool:
    """Converts an entry of `tools/list`, and ignores members of a wrong type; it must have a name."""
    description, told = listed.get("description"), listed.get("annotations")
    annotations = Annotations()
    for field, name in HINTS.items():
        value = told.get(name) if isinstance(told, Mapping) else None
        if isinstance(value, bool):
            setattr(annotations, field, value)
    return Tool(
        name=listed["name"],
        description=description if isinstance(description, str) else None,
        input_schema=json.dumps(listed["inputSchema"]) if "inputSchema" in listed else None,
        annotations=annotations,
    )
