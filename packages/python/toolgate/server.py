"""What a gate wants of a connection to an MCP server, so that you can bring your own."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from toolgate.records import fit, hint_at
from toolgate.types import Annotations, Tool

MEMBERS = ["name", "title", "description", "inputSchema", "outputSchema", "annotations", "icons", "execution", "_meta"]

HINTS = {
    "read_only": "readOnlyHint",
    "destructive": "destructiveHint",
    "idempotent": "idempotentHint",
    "open_world": "openWorldHint",
}


class Server(Protocol):
    """A connection to one MCP server, which a gate opens when it is needed. Every method may raise `Failed`.

    The gate limits the time of each call, and cancels the method that it waits for. Say `sent=False` in `Failed` only if
    the server cannot have acted on the request. Any other exception means that it may have: then a tool that is neither
    read-only nor idempotent is never sent again.
    """

    async def open(self) -> None:
        """Opens a session unless there is one that works."""

    async def tools(self) -> Sequence[Tool | Mapping[str, Any]]:
        """Lists all tools, as MCP has them or as `Tool`; one with a member that does not exist fails the server.

        `tool_from_json` converts what somebody else's server lists, and leaves out what it does not know.
        """

    async def call(self, tool: str, arguments: str) -> str | Mapping[str, Any]:
        """Sends `tools/call` with the arguments, a JSON object, and returns the `result` of the response.

        Return it as the JSON that the server wrote, so that no digit is lost, or else as a dictionary.
        """

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


def tool_from_mcp(listed: Mapping[str, Any]) -> Tool:
    """Converts a tool as MCP has it, and raises an error if it has a member that MCP does not have."""
    given = listed.get("annotations") or {}
    if not isinstance(given, Mapping):
        raise TypeError(f"the annotations of a tool must be a dictionary, not {given!r}")
    if "input_schema" in listed or any(name in HINTS for name in given):  # with the names of `Tool`
        tool: Tool = fit(Tool, listed, "a tool")
        return tool
    refuse_others(listed, MEMBERS, "a tool")
    refuse_others(given, ["title", *HINTS.values()], "the annotations of a tool")
    schema = listed.get("inputSchema")
    return Tool(
        name=fit(str, listed.get("name"), "the name of a tool"),
        description=listed.get("description"),
        input_schema=schema if schema is None or isinstance(schema, str) else json.dumps(schema),
        annotations=Annotations(**{field: given.get(name) for field, name in HINTS.items()}),
    )


def refuse_others(given: Mapping[str, Any], known: list[str], where: str) -> None:
    """Raises an error about the first member that is not among these."""
    for name in given:
        if name not in known:
            raise TypeError(f"{where} has no member {name!r}{hint_at(name, known)}")
