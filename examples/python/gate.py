"""A gate and its calls: the component decides, this module acts."""

import asyncio
import itertools
import json
import random
import sys
import tempfile
import time

from wasmtime import WasmtimeError
from wasmtime.component import Variant

from component import Record, Refused
from mcp_stdio import Failed


class Gate:
    """One agent's view of its servers. The journal contains everything that its instance was told, so that another
    instance can be brought to the same state."""

    def __init__(self, component, servers, approve=None, seconds=60):
        self.component, self.servers, self.approve, self.seconds = component, servers, approve, seconds
        self.settings = component.instance().ask("execution", "default-settings", list(servers))
        self.ids, self.journal, self.instance, self.settled = itertools.count(1), [], None, None
        self.labels, self.known, self.counted = [], [], {}  # what rules remember of the agent

    async def call(self, name, arguments=""):
        """Runs the directive loop: the component says what to do, and this does it and reports, until the call is done."""
        call, until, requests, event = str(next(self.ids)), time.monotonic() + self.seconds, 0, None
        try:
            directive = self.tell("gate.begin", call, Record(id=call, name=name, arguments=arguments))
            while directive.tag != "done":
                requests += directive.tag == "request"
                event = await self.carry_out(directive, until)
                directive = self.tell("execution.next", call, event)
            result = directive.payload
            if not (result.tool and f"written:{result.tool.server}" in self.labels):  # it may read its own words
                self.learn(result.learned)
            return result
        except WasmtimeError:
            # The same step crashed two instances: a bug in the component, which ends only this call.
            unknown = requests > 0 and event.tag not in ("answered", "condensed")
            code, so = ("outcome-unknown", "the tool may have run") if unknown else ("internal", "there is no result")
            return Record(code=code, text=f"the component crashed: {so}", is_error=True, attempts=requests)
        finally:
            self.forget(call)

    def tell(self, *step, again=True):
        """Sends one more step to the instance. If the instance traps, replays the journal on a new one, once."""
        if self.settled is None:
            self.settled = self.settings.copy()
        if self.settings != self.settled:
            raise Refused("the settings were changed after the first call, which would not be heeded: make another gate")
        try:
            if self.instance is None:
                self.instance, self.executions = self.component.instance(), {}
                self.gate = self.instance.ask("execution", "[constructor]gate", self.settings)
                for told in self.journal:
                    self.take(*told)
            answer = self.take(*step)
        except WasmtimeError as trap:
            self.instance = None
            if not again:
                raise
            print("a new instance takes over:", str(trap).strip().splitlines()[-1].strip(), file=sys.stderr)
            return self.tell(*step, again=False)
        self.journal.append(step)
        return answer

    def take(self, method, call, *given):
        subject = self.executions.get(call, self.gate)
        answer = self.instance.ask("execution", f"[method]{method}", subject, *given)
        if method == "gate.begin":
            self.executions[call], answer = answer.execution, answer.directive
        return answer

    def forget(self, call):
        """Frees the state of a call; the tools that its servers offered stay."""
        self.journal = [step for step in self.journal if step[1] != call]
        try:
            if self.instance and call in self.executions:
                self.instance.drop(self.executions.pop(call))
        except WasmtimeError:
            self.instance = None

    async def carry_out(self, directive, until):
        """Carries out a directive within the time that the call has left, and returns the event."""
        try:
            return await asyncio.wait_for(self.act(directive.tag, directive.payload), until - time.monotonic())
        except asyncio.TimeoutError:
            failed = Failed("timeout", sent=directive.tag == "request")
        except Failed as error:
            failed = error
        detail = Record(**failed.detail) if isinstance(failed.detail, dict) else failed.detail
        phase = "sent" if failed.sent else "not-sent"
        return Variant("failed", Record(failure=Variant(failed.kind, detail), phase=phase))

    async def act(self, what, given):
        match what:
            case "connect":
                outcomes = await asyncio.gather(*map(self.connect, given), return_exceptions=True)
                if all(outcomes):  # if one server is up, it may be the one that the name means
                    raise outcomes[0]
                return Variant("connected")
            case "circumstances":  # this host has one agent, which runs it
                caller = Record(principal="local", groups=[], admin=True, client="")
                seen = Record(labels=self.labels, known=self.known if given else [])
                return Variant("circumstances", Record(caller=caller, now_ms=int(time.time() * 1000), context=seen))
            case "count":
                return Variant("counted", list(map(self.count, given)))
            case "request":
                self.learn(given.learned)
                tool = given.tool
                params = f'{{"name":{json.dumps(tool.tool)},"arguments":{given.arguments}}}'
                result = await self.servers[tool.server].request("tools/call", params)
                return Variant("answered", json.dumps(result))
            case "reconnect":
                await self.servers[given].open()
                return Variant("reconnected")
            case "wait":
                await asyncio.sleep(random.uniform(getattr(given, "min-ms"), getattr(given, "max-ms")) / 1000)
                return Variant("waited")
            case "ask":
                said = await self.approve(given) if self.approve else None
                return Variant("unasked") if said is None else Variant("approved", said)
            case "condense":  # saves a long text to a file if requested; this host has no summarizer
                return Variant("condensed", Record(kept=keep(given.text) if given.spill else None))
            case "reauthenticate":
                raise Failed("needs-auth", "this host has no authorization to give")
            case unknown:
                raise Failed("protocol", f"this host does not know the directive {unknown!r}")

    def learn(self, learned):
        """Remembers what the agent has seen; of the values that it knows, those that it used last."""
        if learned:
            self.labels = self.labels + [label for label in learned.labels if label not in self.labels]
            self.known = ([value for value in self.known if value not in learned.known] + learned.known)[-2048:]

    def count(self, rule):
        """Counts a call for a rule with a limit, in a time that begins with the first call."""
        rules = [one for rules in self.settings.rules.lists for one in rules]
        length = getattr(next(one for one in rules if one.name == rule).limit, "per-ms") / 1000
        ends, calls = self.counted.get(rule, (0, 0))
        if ends <= time.monotonic():
            ends, calls = time.monotonic() + length, 0
        self.counted[rule] = ends, calls + 1
        return Record(calls=calls + 1, ends_in_ms=int((ends - time.monotonic()) * 1000))

    async def connect(self, server):
        await self.servers[server].open()
        self.tell("gate.offer", None, server, await self.servers[server].tools(Record))


def keep(text):
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", prefix="result-", delete=False) as file:
        file.write(text)
    return file.name
