"""A gate for programs without asyncio: its calls run in an event loop in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeVar

from toolgate.gate import Gate
from toolgate.logic import Logic
from toolgate.server import Server
from toolgate.types import Caller, ExposedTool, NamingStyle, Question, Settings, ToolResult

T = TypeVar("T")


class SyncGate:
    """A `Gate` with methods that block; any number of threads may call them at once. Close it, or use it in `with`."""

    def __init__(
        self,
        logic: Logic,
        servers: Mapping[str, Server],
        settings: Settings | None = None,
        approve: Callable[[Question], bool | None] | None = None,
        timeout: float = 60,
        caller: Caller | None = None,
    ) -> None:
        """Takes what `Gate` takes; `approve` is a plain function here, and may block."""

        async def ask(question: Question) -> bool | None:
            return await asyncio.to_thread(approve, question) if approve else None

        self.gate = Gate(logic, servers, settings, ask, timeout, caller)
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, name="toolgate", daemon=True)
        self.thread.start()

    @property
    def settings(self) -> Settings:
        """The settings, which may be changed before their first use."""
        return self.gate.settings

    @property
    def unavailable(self) -> dict[str, str]:
        """The servers that `tools` could not reach, and why."""
        return self.gate.unavailable

    def tools(self, style: NamingStyle | None = None) -> list[ExposedTool]:
        """Lists the tools that the agent may use, as `Gate.tools` does."""
        return self.run(self.gate.tools(style))

    def call(self, name: str, arguments: str | Mapping[str, Any] = "") -> ToolResult:
        """Calls a tool, as `Gate.call` does."""
        return self.run(self.gate.call(name, arguments))

    def close(self) -> None:
        """Closes the servers and ends the thread; the gate cannot be used again."""
        if self.loop.is_closed():
            return
        self.run(self.gate.close())
        self.run(self.loop.shutdown_default_executor())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs work in the thread of the gate, and waits for it; if this wait is interrupted, cancels the work."""
        if self.loop.is_closed():
            work.close()
            raise RuntimeError("the gate is closed")
        future = asyncio.run_coroutine_threadsafe(work, self.loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def __enter__(self) -> SyncGate:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
