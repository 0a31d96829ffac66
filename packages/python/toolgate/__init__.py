"""toolgate decides which tools of MCP servers an agent may call, and makes the calls.

`Logic` answers questions: `Logic().parse_arguments("a: 1")`. `Gate` calls tools with asyncio, and `SyncGate` without.
"""

from toolgate.errors import ComponentCrashed, Failed, Refused, SettingsError, ToolgateError
from toolgate.gate import Gate
from toolgate.logic import Logic
from toolgate.records import Case, UnknownField
from toolgate.server import Server, tool_from_json
from toolgate.stdio import StdioServer
from toolgate.sync_gate import SyncGate
from toolgate.types import Question, Settings, Tool, ToolResult

__all__ = [
    "Case",
    "ComponentCrashed",
    "Failed",
    "Gate",
    "Logic",
    "Question",
    "Refused",
    "Server",
    "Settings",
    "SettingsError",
    "StdioServer",
    "SyncGate",
    "Tool",
    "ToolResult",
    "ToolgateError",
    "UnknownField",
    "tool_from_json",
]
