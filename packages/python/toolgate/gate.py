"""A gate and its calls: the component decides, this module acts."""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import random
import re
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from toolgate.component import Instance
from toolgate.errors import ComponentCrashed, Failed, Refused
from toolgate.logic import Logic
from toolgate.records import Case, fit
from toolgate.server import Server, tool_from_mcp
from toolgate.types import (
    AgentContext,
    CallCount,
    Caller,
    Circumstances,
    Condensed,
    Event,
    ExposedTool,
    NamingStyle,
    Question,
    Settings,
    Tool,
    ToolCall,
    ToolResult,
)

SERVER_ID = re.compile("[A-Za-z0-9_-]+")
KNOWN_VALUES = 2048  # of those that an agent knows, so many are remembered
Approve = Callable[[Question], Awaitable["bool | None"]]
log = logging.getLogger("toolgate")


class Gate:
    """One agent's view of its servers: lists and calls their tools.

    Calls may run concurrently, in one event loop. The journal contains everything that the component's instance was told, so
    that another instance can be brought to the same state.
    """

    def __init__(
        self,
        logic: Logic,
        servers: Mapping[str, Server],
        settings: Settings | None = None,
        approve: Approve | None = None,
        timeout: float = 60,
        caller: Caller | None = None,
    ) -> None:
        """Takes the servers by their ids.

        Without `settings`, everything that servers offer may be called. `approve` is asked where a rule wants it: the tool
        runs only if it returns `True`. It returns `False` if a person declines, and `None` if nobody can be asked; with
        anything else, or an exception, the rules cannot be applied. `timeout` is the number of seconds that a call may
        take. `caller` is who makes the calls, for rules.
        """
        check_servers(servers)
        check_settings(settings)
        self.component, self.servers, self.approve, self.timeout = logic.component, servers, approve, timeout
        self.settings = settings.copy() if settings else logic.default_settings(servers)
        ids = [server.id for server in self.settings.policy.servers]
        if unreachable := [server for server in servers if server not in ids]:
            raise ValueError(f"the settings have no server {', '.join(unreachable)}; they have {', '.join(ids)}")
        self.caller = caller or Caller(principal="local", admin=True, client="")
        self.unavailable: dict[str, str] = {}  # the servers that `tools` could not reach, and why
        self.ids = itertools.count(1)
        self.journal: list[tuple[Any, ...]] = []
        self.executions: dict[str, Any] = {}
        self.instance: Instance | None = None
        self.settled: Settings | None = None
        self.context = AgentContext()  # what rules remember of the agent
        self.counted: dict[str, tuple[float, int]] = {}

    async def __aenter__(self) -> Gate:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the servers; a later call opens them again."""
        await asyncio.gather(*(server.close() for server in self.servers.values()))

    async def tools(self, style: NamingStyle | None = None) -> list[ExposedTool]:
        """Lists the tools that the agent may use, named in the style, or else in the style of the settings.

        Opens all servers that the settings have; `unavailable` says which of them could not be reached, and why.
        """
        ids = [server.id for server in self.settings.policy.servers]
        ids = [server for server in ids if self.ask("gate.selects", server)]
        outcomes = await asyncio.gather(*(self.timely(self.connect(server)) for server in ids))
        self.unavailable = {server: str(failed) for server, failed in zip(ids, outcomes) if failed}
        listed: list[ExposedTool] = self.ask("gate.tools", style or self.settings.style, self.circumstances())
        return listed

    async def call(self, name: str, arguments: str | Mapping[str, Any] = "") -> ToolResult:
        """Calls a tool, with the name and the arguments as the model wrote them; a failed call is a result as well."""
        try:
            arguments = arguments if isinstance(arguments, str) else json.dumps(arguments)
        except (TypeError, ValueError, RecursionError) as error:
            return unwritten(name, error)
        call, until, requests, event = str(next(self.ids)), time.monotonic() + self.timeout, 0, None
        try:
            labels = self.context.labels
            directive = self.tell("gate.begin", call, ToolCall(id=call, name=name, arguments=arguments))
            while directive.tag != "done":
                requests += directive.tag == "request"
                event = await self.carry_out(directive, until)
                directive = self.tell("execution.next", call, event)
            result: ToolResult = directive.payload
            written = f"written:{result.tool.server}" if result.tool else ""
            if written in labels or written not in self.context.labels:  # else it may read its own words
                self.learn(result.learned)
            return result
        except ComponentCrashed:
            # The same step crashed two instances: a bug in the component, which ends only this call.
            unknown = requests > 0 and not (isinstance(event, Case) and event.tag in ("answered", "condensed"))
            return crashed(call, name, requests, unknown)
        finally:
            self.forget(call)

    def ask(self, method: str, *given: Any) -> Any:
        """Asks a question that changes nothing."""
        return self.step((method, None, *given), again=True)

    def tell(self, *step: Any) -> Any:
        """Sends one more step to the instance, and notes it in the journal."""
        answer = self.step(step, again=True)
        self.journal.append(step)
        return answer

    def step(self, step: tuple[Any, ...], again: bool) -> Any:
        """Sends a step to the instance. If the instance traps, replays the journal on a new one, once."""
        if self.settled is None:
            self.settled = self.settings.copy()
        if self.settings != self.settled:
            raise Refused("the settings were changed after their first use, which would not be heeded: make another gate")
        try:
            if self.instance is None:
                self.instance, self.executions = self.component.instance(), {}
                self.gate = self.instance.ask("execution", "[constructor]gate", self.settings)
                for told in self.journal:
                    self.take(self.instance, *told)
            return self.take(self.instance, *step)
        except ComponentCrashed as trap:
            self.instance = None
            if not again:
                raise
            log.warning("the component crashed, and a new instance takes over: %s", trap)
            return self.step(step, again=False)

    def take(self, instance: Instance, method: str, call: str | None, *given: Any) -> Any:
        """Puts a step to an instance: to the call, if it has begun, or else to the gate."""
        subject = self.executions.get(call or "", self.gate)
        answer = instance.ask("execution", f"[method]{method}", subject, *given)
        if method == "gate.begin" and call:
            self.executions[call], answer = answer.execution, answer.directive
        return answer

    def forget(self, call: str) -> None:
        """Frees the state of a call; the tools that its servers offered stay."""
        self.journal = [step for step in self.journal if step[1] != call]
        try:
            if self.instance and call in self.executions:
                self.instance.drop(self.executions.pop(call))
        except ComponentCrashed:
            self.instance = None

    async def carry_out(self, directive: Case[str, Any], until: float) -> Any:
        """Carries out a directive within the time that the call has left, and returns the event."""
        try:
            event = await asyncio.wait_for(self.act(directive.tag, directive.payload), until - time.monotonic())
            return fit(Event, event, "the event")
        except asyncio.TimeoutError:
            failed = Failed("timeout", sent=directive.tag == "request")
        except Failed as error:
            failed = error
        except (ComponentCrashed, Refused):  # of our component: those of servers are failures by now
            raise
        except Exception as error:
            log.exception("could not carry out %r", directive.tag)
            failed = Failed("protocol", repr(error))
        # Only a request can be sent, and only `False` says that it was not.
        phase = "sent" if directive.tag == "request" and failed.sent is not False else "not-sent"
        try:
            return fit(Event, Case("failed", {"failure": failed.failure, "phase": phase}), "the event")
        except (TypeError, ValueError) as error:  # a transport raised `Failed` with a wrong detail
            return Case("failed", {"failure": Case("protocol", str(error)), "phase": phase})

    async def act(self, what: str, given: Any) -> Any:
        """Carries out a directive, and returns the event."""
        match what:
            case "connect":
                outcomes = await asyncio.gather(*map(self.connect, given), return_exceptions=True)
                if all(outcomes):  # if one server is up, it may be the one that the name means
                    raise outcomes[0] or Failed("closed")
                return "connected"
            case "circumstances":
                return Case("circumstances", self.circumstances(with_known=given))
            case "count":
                return Case("counted", list(map(self.count, given)))
            case "request":
                self.learn(given.learned)
                server = self.server(given.tool.server)
                answer = await served(server.call, given.tool.tool, given.arguments)
                return Case("answered", json.dumps(answer) if isinstance(answer, Mapping) else answer)
            case "reconnect":
                await served(self.server(given).open)
                return "reconnected"
            case "wait":
                await asyncio.sleep(random.uniform(given.min_ms, given.max_ms) / 1000)
                return "waited"
            case "ask":
                said = await self.consent(given)
                return "unasked" if said is None else Case("approved", said)
            case "condense":  # saves a long text to a file if requested; this host has no summarizer
                return Case("condensed", Condensed(kept=keep(given.text) if given.spill else None))
            case "reauthenticate":
                raise Failed("needs-auth", "this host has no authorization to give")
            case unknown:
                raise Failed("protocol", f"this host does not know the directive {unknown!r}")

    async def consent(self, question: Question) -> bool | None:
        """Asks a person. Where `approve` gives no answer that counts, nothing is sent, and no server is to blame."""
        if self.approve is None:
            return None
        try:
            said = await self.approve(question)
        except Exception as error:  # `approve` is not ours
            log.exception("`approve` failed")
            raise Failed("rules-unavailable", f"`approve` raised {error!r}") from None
        if said is not None and not isinstance(said, bool):
            log.error("`approve` must return True, False or None, not %r", said)
            raise Failed("rules-unavailable", f"`approve` must return True, False or None, not {said!r}")
        return said

    def circumstances(self, with_known: bool = True) -> Circumstances:
        """Returns who calls, when, and what the agent has seen."""
        context = AgentContext(labels=self.context.labels, known=self.context.known if with_known else [])
        return Circumstances(caller=self.caller, now_ms=int(time.time() * 1000), context=context)

    def learn(self, learned: AgentContext | None) -> None:
        """Remembers what the agent has seen; of the values that it knows, those that it used last."""
        if learned:
            seen = self.context
            labels = seen.labels + [label for label in learned.labels if label not in seen.labels]
            known = [value for value in seen.known if value not in learned.known] + learned.known
            self.context = AgentContext(labels=labels, known=known[-KNOWN_VALUES:])

    def count(self, rule: str) -> CallCount:
        """Counts a call for a rule with a limit, in a time that begins with the first call."""
        limits = [one.limit for rules in self.settings.rules.lists for one in rules if one.name == rule]
        length = limits[0].per_ms / 1000 if limits and limits[0] else 0
        ends, calls = self.counted.get(rule, (0.0, 0))
        if ends <= time.monotonic():
            ends, calls = time.monotonic() + length, 0
        self.counted[rule] = ends, calls + 1
        return CallCount(calls=calls + 1, ends_in_ms=int((ends - time.monotonic()) * 1000))

    def server(self, id: str) -> Server:
        """Returns a server; the settings may have some that this program has no connection to."""
        if id not in self.servers:
            raise Failed("connect", "this program has no connection to the server", sent=False)
        return self.servers[id]

    async def connect(self, id: str) -> None:
        """Opens a server, and offers its tools to the component."""
        server = self.server(id)
        await served(server.open)
        tools = taken(await served(server.tools))
        if all(step[1] is None for step in self.journal):  # no call depends on what the server offered before
            self.journal = [step for step in self.journal if step[2] != id]
        self.tell("gate.offer", None, id, tools)

    async def timely(self, opening: Awaitable[None]) -> Exception | None:
        """Waits for a server within the time of a call, and returns why it could not be reached."""
        try:
            await asyncio.wait_for(opening, self.timeout)
        except asyncio.TimeoutError:
            return Failed("timeout")
        except Refused:
            raise
        except Exception as error:  # of whatever kind: the server is not ours
            return error
        return None


async def served(method: Callable[..., Awaitable[Any]], *given: Any) -> Any:
    """Asks a server, which is not ours: whatever it raises is a failure, after which nobody knows what it did."""
    try:
        return await method(*given)
    except Failed:
        raise
    except asyncio.TimeoutError:
        raise Failed("timeout") from None
    except Exception as error:
        log.exception("a server failed")
        raise Failed("protocol", repr(error)) from error


def taken(listed: Any) -> list[Tool]:
    """Returns the tools of a server, each a `Tool` or as MCP has it."""
    if not isinstance(listed, (list, tuple)):
        raise Failed("protocol", f"the tools must be a list, not {listed!r}")
    try:
        return [tool_from_mcp(tool) if isinstance(tool, Mapping) else fit(Tool, tool, "a tool") for tool in listed]
    except (TypeError, ValueError) as error:
        raise Failed("protocol", str(error)) from error


def check_servers(servers: object) -> None:
    """Raises an error if these are not servers by their ids."""
    if not isinstance(servers, Mapping):
        found = type(servers).__name__
        raise TypeError(f"servers must be a dictionary such as {{'demo': StdioServer(…)}}, not a value of type {found}")
    for id, server in servers.items():
        if not SERVER_ID.fullmatch(fit(str, id, "the id of a server")):
            raise ValueError(f"the id of a server must have letters, digits, '_' and '-' only, and at least one, not {id!r}")
        lacking = [name for name in ("open", "tools", "call", "close") if not callable(getattr(server, name, None))]
        if lacking:
            instead = f"; write StdioServer({', '.join(map(repr, server.split()))})" if isinstance(server, str) else ""
            raise TypeError(f"server {id!r} must have the methods {', '.join(lacking)}, unlike {server!r}{instead}")


def check_settings(settings: object) -> None:
    """Raises an error if these are not settings: from a dictionary, rules could be missing without a word."""
    if settings is not None and not isinstance(settings, Settings):
        raise TypeError(
            f"settings must be a record Settings, not a value of type {type(settings).__name__}: change those of "
            "`logic.default_settings(servers)`, or read them with `Settings.from_file` or `Settings.from_json`"
        )


def unwritten(name: str, error: Exception) -> ToolResult:
    """Returns the result of a call whose arguments cannot be written as JSON."""
    return ToolResult(
        call_id="", name=name, text=f"invalid arguments: {error}", is_error=True, attempts=0, truncated=False,
        code="invalid-arguments", clean=False,
    )  # fmt: skip


def crashed(call: str, name: str, requests: int, unknown: bool) -> ToolResult:
    """Returns the result of a call that the component cannot decide."""
    so = "the tool may have run" if unknown else "there is no result"
    return ToolResult(
        call_id=call, name=name, text=f"the component crashed: {so}", is_error=True, attempts=requests, truncated=False,
        code="outcome-unknown" if unknown else "internal", clean=False,
    )  # fmt: skip


def keep(text: str) -> str:
    """Saves a text to a file for its owner alone, and returns the name."""
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", prefix="result-", delete=False) as file:
        file.write(text)
    return file.name
