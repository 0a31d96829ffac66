"""Runs the code of one page with a scripted model: `play.py SDK PAGE [URL TOKEN]`; without a URL, on standard input and output.

Every check is one line, `ok …` or `FAIL …`. The exit code says only whether the program came to its end.
"""

import asyncio
import atexit
import importlib
import json
import re
import sys
import types
from pathlib import Path

sys.dont_write_bytecode = True  # the source tree stays as it is

import rules  # noqa: E402

LISTED = {"stdio": rules.FOR_LOCAL, "http": rules.FOR_TOKEN}
DENIED = {"stdio": rules.DENIED_TO_LOCAL, "http": rules.DENIED_TO_TOKEN}
WHY_DENIED = {"stdio": rules.WHY_LOCAL, "http": rules.WHY_TOKEN}
# Two errors in a row, since some SDKs give up after the first one unless they are told otherwise.
CALLS = [
    ("demo__add", '{"a": 1, "b": 2}'),
    ("demo__fail", '{"message": "no such luck"}'),
    ("demo__fail", '{"message": "no luck again"}'),
    (rules.ASKED, "{}"),
    ("demo__forecast", '{"city": "Bern", "days": 2}'),
]
LIMIT = 120  # seconds for one run of an agent


class Checks:
    """Prints a line for each check."""

    def __init__(self, name):
        self.name = name

    def check(self, what, right, detail):
        print(f"{'ok  ' if right else 'FAIL'} {self.name}: {what}{'' if right else f': {detail}'}", flush=True)


def refused_calls(way):
    """Calls of tools that are known and refused: by a rule, by a filter and by a limit, with what the model must read."""
    name, arguments = DENIED[way]
    week = ("demo__forecast", '{"city": "Bern", "days": 7}')
    return [
        ("a rule", ("demo__add", '{"a": 2000, "b": 1}'), rules.BECAUSE),
        ("a filter", ("call_tool", json.dumps({"name": name, "arguments": arguments})), WHY_DENIED[way]),
        # The first one may still be within the limit.
        (None, week, ""),
        ("a limit", week, rules.LATER),
        # The run goes on.
        (None, ("demo__add", '{"a": 20, "b": 22}'), "42"),
    ]


def code_of(page):
    """The module of a page: the first block of Python in it, or the page itself if it is one of the scripts here."""
    if page.suffix == ".py":
        return importlib.import_module(page.stem)
    code = re.search(r"^```python\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE)[1]
    module = types.ModuleType(page.stem.replace("-", "_"))
    exec(compile(code, str(page), "exec"), module.__dict__)
    return module


def refuse_connections(checks):
    """Refuses connections to other machines, and says at the very end whether one was tried."""
    tried = []

    def audit(event, arguments):
        if event == "socket.connect" and isinstance(arguments[1], tuple):
            host = arguments[1][0]
        elif event == "socket.getaddrinfo":
            host = arguments[0]
        else:
            return
        if host not in ("127.0.0.1", "::1", "localhost", None):
            tried.append(host)
            raise PermissionError(f"nothing may connect to {host}")

    sys.addaudithook(audit)
    # What was registered first runs last: after the threads with which SDKs send traces have ended.
    atexit.register(lambda: checks.check("the SDK connects to no other machine", not tried, tried))


async def outcome(run):
    """What a run returns, or the error that it ends with; never later than LIMIT."""
    try:
        return await asyncio.wait_for(run, LIMIT)
    except Exception as error:
        return error


async def play(checks, scripted, page, way, gateway):
    """Puts the page's agent to a gateway; `gateway` makes a new connection each time."""
    model = scripted.ScriptedModel(CALLS, "That is all.")
    said = await outcome(page.ask(gateway(), model, "Add, look at the sky, and fail."))
    checks.check("the agent comes to its end", said == "That is all.", repr(said))
    checks.check("the model is shown the tools that it may use", set(model.listed) == LISTED[way], model.listed)
    answers = [model.answers.get(number, ("", None)) for number in range(len(CALLS))]
    total, failure, again, picture, forecast = answers
    checks.check("the sum reaches the model", "3" in total[0] and not total[1], total)
    checks.check("the forecast reaches the model", "Bern" in forecast[0] and not forecast[1], forecast)
    told = "no such luck" in failure[0] and "no luck again" in again[0]
    checks.check("the errors of a tool reach the model", told, answers)
    if failure[1] is not None:  # Not every SDK tells the model which answers are errors.
        checks.check("the errors of a tool are marked as such", failure[1] and again[1], answers)
    declined = "approv" in picture[0] and picture[1] is not False
    checks.check("a call that waits for a person is declined", declined, picture)

    await play_refusals(checks, scripted, page, way, gateway)
    name, arguments = DENIED[way]
    if getattr(scripted, "REFUSES_UNLISTED", True):
        model = scripted.ScriptedModel([(name, json.dumps(arguments))], "That is all.")
        said = await outcome(page.ask(gateway(), model, "Do what you may not."))
        text, is_error = model.answers.get(0, ("", False))
        refused = name in (text if is_error else words(said)) and name not in model.listed
        checks.check("the SDK refuses a tool that is not listed", refused, (said, model.answers))
    said = await outcome(scripted.call(gateway(), name, arguments))
    checks.check("the gateway refuses a denied tool", WHY_DENIED[way] in (words(said) or str(said)), repr(said))
    said = await outcome(scripted.call(gateway(), "nobody__anything", {}))
    checks.check("a name that means nothing is an error", "Available servers: demo" in words(said), repr(said))


async def play_refusals(checks, scripted, page, way, gateway):
    """Lets the agent make calls that are refused, each with another reason that the model must hear."""
    calls = refused_calls(way)
    model = scripted.ScriptedModel([call for _, call, _ in calls], "That is all.")
    said = await outcome(page.ask(gateway(), model, "Do what you may not, and then go on."))
    checks.check("the agent goes on after refusals", said == "That is all.", repr(said))
    for number, (by, _, expected) in enumerate(calls):
        text, is_error = model.answers.get(number, ("", None))
        if by is None:
            checks.check("the call after a refusal is made", expected in text and text, model.answers)
            continue
        checks.check(f"the reason of a refusal by {by} reaches the model", expected in text, model.answers)
        checks.check(f"a refusal by {by} is marked as an error", is_error is not False, model.answers)
        checks.check(f"a refusal by {by} says that nothing failed", "execution failed" not in text, text)


def words(said):
    """The text of an error, or of all errors in a group; nothing for anything else."""
    if isinstance(said, BaseExceptionGroup):
        return " ".join(map(words, said.exceptions))
    return str(said) if isinstance(said, Exception) else ""


async def main():
    sdk, page, *site = sys.argv[1:]
    page, way = Path(page), "http" if site else "stdio"
    checks = Checks(f"{page.stem.removeprefix('scripted_')} {way}")
    refuse_connections(checks)
    page, scripted = code_of(page), importlib.import_module(f"scripted_{sdk}")
    if site:
        await play(checks, scripted, page, way, lambda: page.connect(*site))
        model = scripted.ScriptedModel([], "That is all.")
        said = words(await outcome(page.ask(page.connect(site[0], "a-wrong-token"), model, "Hello?")))
        right = not model.asked and ("401" in said or "token is unknown" in said)
        checks.check("a wrong token connects to nothing", right, said)
    else:
        await play(checks, scripted, page, way, page.start_gateway)


if __name__ == "__main__":
    asyncio.run(main())
