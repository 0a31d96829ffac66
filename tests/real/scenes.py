"""What is tried: each function is a scene of a few commands, and each check is one line of the report."""

import json
import re
import signal
import time
from dataclasses import dataclass
from pathlib import Path

import gate
from world import FACTS, GREETING, TOKEN, World

LAUNCHED = ("everything-npx", "time-uvx")


@dataclass
class Stage:
    """What a scene plays with."""

    world: World
    gate: gate.Gate
    report: object

    def __post_init__(self):
        self.direct = [server for server in self.world.entries if server not in LAUNCHED]
        self.config = self.world.config("toolgate", only=self.direct)
        # Launchers are slow to start, so commands over all servers leave them out.
        self.launched = self.world.config("launched", only=LAUNCHED)

    def config_of(self, server):
        return self.launched if server in LAUNCHED else self.config

    def has(self, name, *servers):
        """Whether these servers are here; says what is skipped if not."""
        missing = [server for server in servers if server not in self.world.entries]
        if missing:
            self.report.skip(name, f"{missing[0]} is {self.world.skipped[missing[0]]}")
        return not missing

    def run(self, name, *arguments, code=0, config=None, **options):
        """Runs a command; checks its exit code, and that nothing is left of it."""
        answer = self.gate.run(config or self.config, *arguments, **options)
        self.check(f"{name}: exit code {code}", answer.code == code, answer)
        self.check(f"{name}: no process is left", not answer.left, "\n".join(answer.left))
        return answer

    def call(self, tool, arguments, expect, *flags, why="", code=0, result="ok", **options):
        """Calls a tool, and looks at the result with `expect`."""
        name, server = f"call {tool}{why and f' ({why})'}", tool.split(".")[0]
        options.setdefault("config", self.config_of(server))
        if self.has(name, server):
            answer = self.run(name, "call", tool, arguments, *flags, "--json", code=code, **options)
            self.check(f"{name}: {result}", holds(lambda said: said["code"] == result, answer), answer)
            self.check(f"{name}: the answer is right", holds(expect, answer), answer)

    def check(self, name, right, detail):
        self.report.check(name, right, detail)


def lists(stage):
    """What the servers offer, in one command each."""
    # Resources and prompts need no second start of servers that have none of them.
    few = ["everything-http", "everything-sse", "everything-ws", "time-ws", "dual", "dual-legacy"]
    few = [server for server in [*few, "memory", "thinking", "fetch"] if server in stage.world.entries]
    for command, kinds, servers, config in (
        ("tools", ["tools"], stage.direct, stage.config),
        ("resources", ["resources", "templates"], few, stage.world.config("few", only=few)),
        ("prompts", ["prompts"], few, stage.world.config("few", only=few)),
    ):
        answer = stage.run(f"{command} of {len(servers)} servers", command, "--json", config=config)
        stage.check(f"{command}: no server failed", holds(lambda said: gate.failed(said) == {}, answer), answer)
        for kind in kinds:
            for server in servers:
                known = getattr(FACTS[server], kind)
                right = holds(lambda said: gate.counts(said, kind)[server] == known, answer)
                stage.check(f"{server} has {known} {kind}", right, answer)


def eras(stage):
    """Which era and version is found for each server, all at once, and behind launchers."""
    launched = [[server] for server in LAUNCHED if stage.has(f"check of {server}", server)]
    for servers in (stage.direct, *launched):
        only = ["--server", *servers] if servers in launched else []
        name = f"check of {' '.join(only[1:]) or 'all servers'}"
        answer = stage.run(name, "check", *only, "--json", config=stage.config_of(servers[0]))
        for server in servers:
            fact = FACTS[server]
            right = holds(lambda said: gate.checked(said)[server][:4] == (True, *fact.era, fact.all_tools), answer)
            stage.check(f"check: {server} is {' '.join(fact.era)} with {fact.all_tools} tools", right, answer)


def readers(stage):
    """What people and providers get to read."""
    if stage.has("output for people", "everything"):
        for command in ("tools", "resources", "prompts", "check"):
            answer = stage.run(f"{command} for people", command, "--server", "everything")
            stage.check(f"{command} for people: names the server", "everything" in answer.out, answer)
        answer = stage.run("instructions", "instructions", "--server", "everything")
        stage.check("instructions: the server has its heading", "#### MCP Server: everything" in answer.out, answer)
    patterns = {
        "openai": r"[a-zA-Z0-9_-]{1,64}",
        "anthropic": r"[a-zA-Z0-9_-]{1,128}",
        "gemini": r"[a-zA-Z_][a-zA-Z0-9_.-]{0,63}",
        "mcp": r"[A-Za-z0-9_.-]{1,128}",
    }
    if stage.has("output for providers", "fs"):
        for target, pattern in patterns.items():
            answer = stage.run(f"tools for {target}", "tools", "--format", target, "--server", "fs")
            names = gate.names(answer.said)
            right = len(set(names)) == FACTS["fs"].tools and all(re.fullmatch(pattern, each) for each in names)
            stage.check(f"tools for {target}: every name fits", right, answer)


def arguments(stage):
    """One tool, every way to name it and to write its arguments."""

    def is_right(said):
        return said["text"] == "The sum of 2 and 40 is 42."

    server = "everything-http"  # it runs already, which saves its start for each of these calls
    file = stage.world.write("sum.json", '{"a": 2, "b": 40}')
    for why, written in (
        ("JSON", '{"a": 2, "b": 40}'),
        ("JSON, repaired", "{'a': 2, 'b': 40,}"),
        ("JSON, strings for numbers", '{"a": "2", "b": "40"}'),
        ("colons", "a: 2, b: 40"),
        ("equal signs", "a=2, b=40"),
        ("lines", "a: 2\nb: 40"),
        ("a file", f"@{file}"),
    ):
        stage.call(f"{server}.get-sum", written, is_right, why=why)
    stage.call(f"{server}.get-sum", gate.STDIN, is_right, why="standard input", text="a: 2, b: 40")
    if stage.has("names", server):
        for name in (f"{server}__get-sum", f"mcp__{server}__get-sum", f"mcp_{server}_get-sum"):
            answer = stage.run(f"call {name}", "call", name, "a: 2, b: 40")
            alone = answer.out.strip() == "The sum of 2 and 40 is 42."
            stage.check(f"call {name}: prints the text alone", alone, answer)


def everything(stage):
    """The reference server over each transport, and through a launcher."""
    weather = {"temperature": 36, "conditions": "Light rain / drizzle", "humidity": 82}
    for server in ("everything", "everything-npx", "everything-http", "everything-sse", "everything-ws"):
        stage.call(f"{server}.echo", "hi, there", lambda said: said["text"] == "Echo: hi, there", why="raw")
        stage.call(
            f"{server}.get-structured-content", "location: Chicago", lambda said: said["structured"] == weather
        )
    for server in ("everything-http", "everything-sse", "everything-ws"):
        entry = stage.world.entries.get(server, {}) | {"timeouts": {"call": "2s"}}
        stage.call(
            f"{server}.trigger-long-running-operation",
            "duration: 3, steps: 6",
            lambda said: said["text"] == "Long running operation completed. Duration: 3 seconds, Steps: 6.",
            why="progress keeps it alive",
            config=stage.world.config("patient", only=[], extra={server: entry}),
        )
    kinds = ["text", "image", "text"]
    stage.call("everything.get-tiny-image", "", lambda said: [each["type"] for each in said["content"]] == kinds)
    stage.call(
        "everything.get-resource-links",
        "count: 2",
        lambda said: [each["type"] for each in said["content"]] == ["text", "resource_link", "resource_link"],
    )
    stage.call(
        "everything.get-env",
        "",
        lambda said: GREETING in said["text"] and gate.MARK in said["text"] and TOKEN not in said["text"],
        why="its own variables, not another server's",
    )


def files(stage):
    """The filesystem server: write, read, list."""
    folder = stage.world.files
    written = json.dumps({"path": str(folder / "made.txt"), "content": "a: 1\nb: 2\n"})
    stage.call("fs.write_file", written, lambda said: (folder / "made.txt").read_text() == "a: 1\nb: 2\n", why="JSON")
    stage.call("fs.read_text_file", "made.txt", lambda said: said["text"] == "a: 1\nb: 2\n", why="raw")
    stage.call("fs.read_file", "path: notes.txt", lambda said: "second line" in said["text"], why="colons")
    head = "path=notes.txt, head=1"
    stage.call("fs.read_text_file", head, lambda said: said["text"] == "first line", why="equal signs")
    stage.call("fs.list_directory", str(folder), lambda said: "[FILE] notes.txt" in said["text"], why="raw")
    paths = f"paths:\n  - {folder}/notes.txt\n  - {folder}/made.txt\n"
    both = ("first line", "b: 2")
    stage.call("fs.read_multiple_files", paths, lambda said: all(each in said["text"] for each in both), why="YAML")


def minds(stage):
    """The memory and the sequential thinking servers."""
    entity = {"name": "gate", "entityType": "door", "observations": ["opens: often", "closes"]}
    stage.call(
        "memory.create_entities",
        "entities:\n  - name: gate\n    entityType: door\n    observations:\n      - 'opens: often'\n      - closes\n",
        lambda said: said["structured"] == {"entities": [entity]},
        why="YAML",
    )
    stage.call("memory.search_nodes", "gate", lambda said: said["structured"]["entities"] == [entity], why="raw")
    stage.call("memory.read_graph", "", lambda said: said["structured"]["relations"] == [], why="empty")
    stage.call(
        "thinking.sequentialthinking",
        "thought: one step, nextThoughtNeeded: true, thoughtNumber: 1, totalThoughts: 2",
        lambda said: said["structured"]["nextThoughtNeeded"] is True and said["structured"]["totalThoughts"] == 2,
        why="colons",
    )


def python(stage):
    """The Python servers, of the modern era: time, git, and one of both eras over HTTP."""
    tokyo = "source_timezone: UTC, time: 12:00, target_timezone: Asia/Tokyo"
    for server in ("time", "time-uvx", "time-ws"):
        stage.call(f"{server}.convert_time", tokyo, lambda said: said["structured"]["time_difference"] == "+9.0h")
    repository = str(stage.world.repository)
    stage.call("git.git_status", repository, lambda said: "new.txt" in said["text"], why="raw")
    stage.call(
        "git.git_log",
        f"repo_path: {repository}, max_count: 1",
        lambda said: "Message: the only commit" in said["text"],
        why="colons",
    )
    for server in ("dual", "dual-legacy"):
        stage.call(f"{server}.greet", "you", lambda said: said["text"] == "Hello, you!", why="raw")
        stage.call(f"{server}.add", "a=2, b=40", lambda said: said["structured"] == {"sum": 42}, why="equal signs")
        stage.call(f"{server}.count", "to: 3", lambda said: said["text"] == "counted to 3", why="answers with a stream")


def resources(stage):
    """Resources read over each transport."""
    features = "demo://resource/static/document/features.md"
    blob = "demo://resource/dynamic/blob/7"
    for server, uri, expect in (
        *(
            (server, features, lambda said: said["contents"][0]["text"].startswith("# Everything Server"))
            for server in ("everything", "everything-http", "everything-sse", "everything-ws")
        ),
        ("everything", "demo://resource/dynamic/text/7", lambda said: "Resource 7" in said["contents"][0]["text"]),
        ("everything", blob, lambda said: said["contents"][0]["blob"].startswith("UmVzb3VyY2UgNzog")),
        ("memory", "memory://knowledge-graph", lambda said: "entities" in json.loads(said["contents"][0]["text"])),
        ("dual", "dual://notes", lambda said: said["contents"][0]["text"] == "both eras are served here"),
        ("dual", "dual://squares/9", lambda said: said["contents"][0]["text"] == "81"),
        ("dual-legacy", "dual://notes", lambda said: said["contents"][0]["text"] == "both eras are served here"),
    ):
        name = f"read {uri} of {server}"
        if stage.has(name, server):
            answer = stage.run(name, *gate.read(server, uri))
            stage.check(f"{name}: the contents are right", holds(expect, answer), answer)
    for server, uri in (("everything", "demo://nothing"), ("dual", "dual://nothing")):
        if stage.has(f"read {uri}", server):
            stage.run(f"read {uri}", *gate.read(server, uri), code=1)


def prompts(stage):
    """Prompts with and without arguments."""
    for server, prompt, written, text in (
        ("everything", "simple-prompt", (), "This is a simple prompt without arguments."),
        ("everything", "args-prompt", ("city: Oslo",), "What's weather in Oslo?"),
        ("everything-http", "args-prompt", ('{"city": "Oslo"}',), "What's weather in Oslo?"),
        ("everything-sse", "args-prompt", ("city=Oslo",), "What's weather in Oslo?"),
        ("everything-ws", "args-prompt", ("city: Oslo",), "What's weather in Oslo?"),
        ("dual", "welcome", ("name: you",), "Please welcome you."),
        ("dual-legacy", "welcome", ("name: you",), "Please welcome you."),
    ):
        name = f"prompt {prompt} of {server}"
        if stage.has(name, server):
            answer = stage.run(name, *gate.get(server, prompt, *written))
            right = holds(lambda said: said["messages"][0]["content"]["text"] == text, answer)
            stage.check(f"{name}: the message is right", right, answer)
    if stage.has("prompt without its argument", "everything"):
        stage.run("prompt without its argument", *gate.get("everything", "args-prompt"), code=1)


def refusals(stage):
    """How what goes wrong is told, and with which exit code."""
    no = {"code": 1, "result": "tool-error"}
    stage.call("fs.read_text_file", "/etc/hostname", lambda said: "Access denied" in said["text"], why="outside", **no)
    stage.call("git.git_status", "/", lambda said: "outside the allowed" in said["text"], why="outside", **no)
    stage.call("time.get_current_time", "Nowhere", lambda said: "Invalid timezone" in said["text"], why="no zone", **no)
    stage.call(
        "everything.simulate-research-query",
        "gates",
        lambda said: said["is_error"] and "requires task augmentation" in said["text"],
        why="a tool for tasks alone",
        **no,
    )
    bad = {"code": 2, "result": "invalid-arguments"}
    stage.call("everything.get-sum", "a: 2", lambda said: '"b"' in said["text"], why="one is missing", **bad)
    mars = "location: Mars"
    stage.call("everything.get-structured-content", mars, lambda said: "Mars" in said["text"], why="no city", **bad)
    none = {"code": 5, "result": "unknown-tool"}
    stage.call("fs.read_txt_file", "x", lambda said: "read_text_file" in said["text"], why="a wrong letter", **none)
    late = ("--timeout", "1s")
    stage.call(
        "everything-http.trigger-long-running-operation",
        "duration: 20, steps: 1",
        lambda said: said["is_error"],
        *late,
        why="late, and safe to repeat",
        code=6,
        result="timeout",
    )
    for server in ("dual", "dual-legacy"):
        stage.call(
            f"{server}.rest",
            "seconds: 20",
            lambda said: said["is_error"],
            *late,
            why="late, and nobody knows whether it may be repeated",
            code=4,
            result="outcome-unknown",
        )


def broken(stage):
    """Servers that cannot work stand beside one that does."""
    if not stage.has("broken servers", "everything-http"):
        return
    dead = {
        "missing": {"command": "no-such-program-at-all"},
        "ends": {"command": "sh", "args": ["-c", "echo cannot open the vault >&2; exit 3"]},
        "refused": {"type": "http", "url": "http://127.0.0.1:9/mcp"},
        "unset": {"command": "sh", "args": ["-c", "${REAL_UNSET_VARIABLE}"]},
    }
    config = stage.world.config("broken", only=["everything-http"], extra=dead)
    answer = stage.run("tools beside broken servers", "tools", "--json", config=config)
    right = holds(lambda said: gate.counts(said, "tools")["everything-http"] == 13, answer)
    stage.check("tools beside broken servers: the others are there", right, answer)
    for server in dead:
        right = holds(lambda said: bool(gate.failed(said)[server]), answer)
        stage.check(f"tools beside broken servers: says why {server} is not", right, answer)
    stage.run("tools --strict beside broken servers", "tools", "--strict", "--json", config=config, code=2)
    answer = stage.run("check of broken servers", "check", "--json", config=config, code=2)
    words = {"missing": "no-such-program-at-all", "ends": "cannot open the vault", "unset": "REAL_UNSET_VARIABLE"}
    for server, word in words.items():
        right = holds(lambda said: not gate.checked(said)[server][0] and word in gate.checked(said)[server][4], answer)
        stage.check(f"check of broken servers: {server} says {word!r}", right, answer)
    for server in ("missing", "ends", "refused"):
        stage.run(f"call of {server}", "call", f"{server}.any", "{}", config=config, code=3)
    stage.run("call beside broken servers", "call", "everything-http.echo", "hi", config=config)


def foreign(stage):
    """The files that people already have."""
    entries = stage.world.entries
    if not stage.has("foreign files", "fs", "everything-http", "everything-sse", "everything-ws", "time", "dual"):
        return
    servers = {name: entries[name] for name in ("fs", "everything-http", "everything-sse", "everything-ws")}
    servers["everything-ws"] = servers["everything-ws"] | {"type": "ws"}
    claude = stage.world.write("mcp.json", json.dumps({"mcpServers": servers}, indent=2))
    servers = {
        "time": {"type": "stdio", **entries["time"], "env": {"REAL_WORD": "${input:WORD}"}},
        "dual": {"type": "http", "url": entries["dual"]["url"], "headers": {"X-Word": "${input:WORD}"}},
    }
    inputs = [{"type": "promptString", "id": "WORD", "description": "a word", "password": True}]
    text = json.dumps({"inputs": inputs, "servers": servers}, indent=2)
    vscode = stage.world.write("vscode.json", f"// comments are fine here\n{text}\n")
    for name, config, known in (
        ("Claude's mcp.json", claude, ("fs", "everything-http", "everything-sse", "everything-ws")),
        ("VS Code's mcp.json", vscode, ("time", "dual")),
    ):
        answer = stage.run(f"tools of {name}", "tools", "--json", config=config)
        for server in known:
            fact = FACTS[server]
            # One process behind a bridge shows everybody what it has shown to a capable client.
            counts = {fact.tools, fact.all_tools} if server.endswith("-ws") else {fact.tools}
            right = holds(lambda said: gate.counts(said, "tools")[server] in counts, answer)
            stage.check(f"tools of {name}: {server} has {fact.tools}", right, answer)
    notes = "path: notes.txt"
    stage.call("fs.read_file", notes, lambda said: "first line" in said["text"], why="Claude", config=claude)
    stage.call("dual.greet", "you", lambda said: said["text"] == "Hello, you!", why="VS Code", config=vscode)


def secrets(stage):
    """A token for one server is in no output."""
    if not stage.has("secrets", "thinking"):
        return
    for command in (["tools", "--json"], ["check", "--json"], ["check"], ["instructions"]):
        name = " ".join(command)
        answer = stage.run(f"{name} with a token", *command, "--server", "thinking", "-v")
        stage.check(f"{name} with a token: does not show it", TOKEN not in answer.out + answer.err, answer)


def endings(stage):
    """A launcher whose server does not end by itself, and toolgate stopped at a bad moment."""
    if not stage.has("endings", "everything-npx"):
        return
    # From here on the server's own timer keeps it alive, even after the end of its input.
    toggle = "everything-npx.toggle-simulated-logging"
    stage.run(f"call {toggle}", "call", toggle, "{}", config=stage.launched)
    arguments = ["call", "everything-npx.trigger-long-running-operation", "duration: 60, steps: 1"]
    for what in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        process, mark = stage.gate.start(stage.launched, *arguments)
        try:
            running = await_call(mark)
            process.send_signal(what)
            out, err = process.communicate(timeout=20)
        finally:
            process.kill()
            process.wait()
        left = gate.gone(mark, limit=10)
        # toolgate, the launcher, its shell, and the server itself.
        stage.check(f"{what.name} during a call: the launcher and its children ran", len(running) >= 4, f"{out}\n{err}")
        stage.check(f"{what.name} during a call: no process is left", not left, "\n".join(left))
        if what == signal.SIGINT:
            stage.check("SIGINT: exit code 130", process.returncode == 130, f"{process.returncode}\n{out}\n{err}")


def await_call(mark, limit=30):
    """Waits until the server has listed its tools and says no more: it is in the call. Gives what runs then."""
    until, written, quiet = time.monotonic() + limit, 0, 0
    while time.monotonic() < until:
        running = gate.marked(mark)
        # The launchers have the server's name in their arguments too, but not its path.
        server = [pid for pid, command in running.items() if ".bin/mcp-server-everything stdio" in command]
        now = int(re.search(r"wchar: (\d+)", Path(f"/proc/{server[0]}/io").read_text())[1]) if server else 0
        written, quiet = now, quiet + 1 if now == written and now > LISTED else 0
        if quiet == 20:
            return running
        time.sleep(0.03)
    return {}


# Fewer bytes than the list of its tools, more than all that `everything` writes before it.
LISTED = 5000


def holds(expect, answer):
    """Whether the answer is as expected; one of another shape is not."""
    try:
        return bool(expect(answer.said))
    except (KeyError, IndexError, TypeError, AttributeError, ValueError, OSError):
        return False


ALL = [lists, eras, readers, arguments, everything, files, minds, python, resources, prompts, refusals, broken]
ALL += [foreign, secrets, endings]
