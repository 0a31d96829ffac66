"""A small MCP server with the habit that its first argument names; the other arguments are for the habit."""

import json
import os
import sys
import time

HABIT = sys.argv[1]
REST = sys.argv[2:]
KEPT = []
# The capabilities that the client declared when it started the session.
CLIENT = {}
# All that it was given, once as it is and once as JSON.
GIVEN = "\n".join([*REST, *os.environ.values(), json.dumps(REST), json.dumps(dict(os.environ))])
# What steers a terminal: a colour, the clearing of the screen, a title, a bell, text that runs backwards.
STEERING = "\x1b[31mred\x1b[2J\x1b]0;title\x07\u202eback\u009b1m"


def say(message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def answer(request, result):
    say({"id": request["id"], "result": result})


def refuse(request, code, message, data=None):
    more = {} if data is None else {"data": data}
    say({"id": request["id"], "error": {"code": code, "message": message, **more}})


def note(line):
    """Adds a line to the file that the first argument names."""
    with open(REST[0], "a") as file:
        file.write(line + "\n")


def text(words):
    return {"content": [{"type": "text", "text": words}]}


def tool(name, **more):
    return {"name": name, "description": f"The tool {name}.", "inputSchema": {"type": "object"}, **more}


TOOLS = {
    "odd-names": [tool("a" * 70), tool("x.y/z"), tool("plain", inputSchema={
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {"n": {"type": ["integer", "null"], "exclusiveMinimum": 0}},
        "additionalProperties": False,
    })],
    "steers": [tool("do", description=STEERING), tool(f"t{STEERING}", title=STEERING)],
    "destructive": [tool("wipe", annotations={"destructiveHint": True})],
    "orders": [tool("list_orders", inputSchema={
        "type": "object", "properties": {"orders_id": {"type": "string", "enum": ["orders", "token-9f8e7d"]}},
    })],
    "names": [tool(name) for name in REST],
    "answers-with": [tool("do", outputSchema={
        "type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"],
    })],
    "describes": [tool("do", description="use password: hunter2hunter2", inputSchema={
        "type": "object",
        "properties": {"who": {"type": "string", "default": "bob@example.com", "description": "password: hunter2hunter2"}},
    })],
}


def tools_for(capabilities):
    """The tools that a client with these capabilities is shown."""
    elicitation = capabilities.get("elicitation")
    shown = {
        "do": True,
        "sample": "sampling" in capabilities,
        "ask": elicitation is not None,
        "visit": "url" in (elicitation or {}),
        "both": "sampling" in capabilities and "roots" in capabilities,
        "either": "sampling" in capabilities or "roots" in capabilities,
    }
    return [tool(name) for name in shown if shown[name]]


def listing(kind):
    if kind == "tools" and HABIT == "grows":
        return [tool("grow"), *(tool(f"grown_{n}") for n in range(1, len(KEPT) + 1))]
    if kind == "tools":
        return TOOLS.get(HABIT, [tool("do"), tool("look", annotations={"readOnlyHint": True})])
    if kind == "resources":
        return [
            {"uri": "mem://page", "name": "page"},
            {"uri": "mem://blob", "name": "blob", "description": STEERING if HABIT == "steers" else "Bytes."},
        ]
    if kind == "resourceTemplates":
        return []
    return [{"name": "ask", "description": STEERING if HABIT == "steers" else "Asks."}]


def hang():
    """Says nothing. Whoever listens at the port knows that we have come so far, and when all of us are gone."""
    if REST:
        # Not needed elsewhere, and slow to load.
        import socket
        import subprocess

        connection = socket.create_connection(("127.0.0.1", int(REST[0])))
        # As of a launcher: a child that does not go by itself.
        child = ["sh", "-c", "trap '' TERM INT HUP; echo; sleep 600; :"]
        started = subprocess.Popen(child, stdout=subprocess.PIPE, pass_fds=[connection.fileno()])
        started.stdout.readline()
        connection.sendall(b"!")
        KEPT.append((connection, started))


def ask(method, params):
    """Asks the client, while it waits for an answer itself."""
    say({"id": "question", "method": method, "params": params})
    heard = json.loads(sys.stdin.readline())
    while heard.get("id") != "question":
        take(heard)
        heard = json.loads(sys.stdin.readline())
    return heard.get("result", heard.get("error"))


def call(request):
    if HABIT == "dies":
        sys.exit(9)
    if HABIT == "hangs-in-call":
        return hang()
    if HABIT == "holds":
        # Whoever looks for the first file knows that we have come so far, and lets us go on with the second.
        open(REST[0], "w").close()
        while not os.path.exists(REST[1]):
            time.sleep(0.005)
    if HABIT == "grows":
        KEPT.append("grown")
        say({"method": "notifications/tools/list_changed"})
        return answer(request, text(f"grown_{len(KEPT)}"))
    if HABIT in ("notes-calls", "wants-input"):
        note(json.dumps(request["params"]))
    if HABIT == "wants-input" and "inputResponses" not in request["params"]:
        # As it was given: it may be spelt in an odd way.
        return print(f'{{"jsonrpc":"2.0","id":{json.dumps(request["id"])},"result":{REST[1]}}}', flush=True)
    if HABIT == "wants-input":
        said = text(json.dumps(request["params"]["inputResponses"]))
        return answer(request, {"resultType": "complete", **said})
    if HABIT == "asks":
        return answer(request, text(json.dumps(ask(REST[0], json.loads(REST[1])))))
    if HABIT == "writes":
        # As many lines as it is asked for, to standard error.
        for number in range(request["params"]["arguments"]["lines"]):
            print(f"line {number} password: hunter2hunter2", file=sys.stderr, flush=True)
    if HABIT == "answers-with":
        # As it was given.
        return print(f'{{"jsonrpc":"2.0","id":{json.dumps(request["id"])},"result":{REST[0]}}}', flush=True)
    if HABIT == "deep":
        levels = int(REST[0])
        nested = "[" * levels + "]" * levels
        # Once in a result, and once in an error.
        said = f'"result":{{"content":[],"structuredContent":{nested}}}'
        if request["params"]["name"] == "look":
            said = f'"error":{{"code":-32000,"message":"no","data":{nested}}}'
        return print(f'{{"jsonrpc":"2.0","id":{json.dumps(request["id"])},{said}}}', flush=True)
    if HABIT == "measures":
        return answer(request, text(f"{len(REST[0])} letters"))
    if HABIT == "forges-call":
        return refuse(request, -32000, REST[0], REST[0])
    if HABIT == "refuses-with":
        return refuse(request, -32000, REST[0])
    if HABIT == "rpc-error":
        return refuse(request, -32000, "the back end is away")
    if HABIT == "wants-a-visit":
        data = {"elicitations": [{"mode": "url", "url": "https://consent.invalid/?n=12345678901234567890123"}]}
        return refuse(request, -32042, "URL elicitation required", {**data, "key": os.environ["GIVEN"], "mail": "ada@example.com"})
    if HABIT == "fails-silently":
        return answer(request, {"content": [], "isError": True})
    if HABIT == "steers":
        return answer(request, text(STEERING))
    if HABIT == "tabs":
        return answer(request, text("a\tb\r\nc\td"))
    if HABIT == "leaks":
        return answer(request, text(GIVEN))
    if HABIT == "tells-environment":
        return answer(request, text(" ".join(os.environ)))
    answer(request, text("done"))


def take(request):
    method = request["method"]
    if "id" not in request:
        return
    if method == "server/discover" and REST[2:] == ["modern"]:
        versions = {"resultType": "complete", "supportedVersions": ["2026-07-28"]}
        return answer(request, {**versions, "capabilities": {"tools": {}}})
    if method == "initialize":
        if HABIT == "hangs":
            return hang()
        if HABIT == "refuses":
            return refuse(request, -32603, "not today")
        CLIENT.update(request["params"]["capabilities"])
        info = {"name": "fixture", "version": "1.2"}
        if HABIT == "steers":
            info["name"] = STEERING
        if HABIT == "is-called":
            info["name"] = REST[0]
        capabilities = {"tools": {}, "resources": {}, "prompts": {}, "logging": {}}
        result = {"protocolVersion": request["params"]["protocolVersion"], "capabilities": capabilities}
        result |= {"serverInfo": info, "instructions": STEERING if HABIT == "steers" else "Be kind."}
        return answer(request, result)
    if method == "tools/list" and HABIT == "hangs-in-list":
        return
    if method == "tools/list" and HABIT == "forges-refusal":
        return refuse(request, -32000, REST[0])
    if method == "tools/list" and HABIT == "forges-error":
        return say({"id": None, "error": {"code": -32000, "message": REST[0]}})
    if method == "tools/list" and HABIT == "by-capability":
        meta = request["params"].get("_meta", {})
        if "elicitation" in CLIENT:
            note(json.dumps(ask("elicitation/create", {"message": "Who?", "requestedSchema": {"type": "object"}})))
        return answer(request, {"tools": tools_for(meta.get("io.modelcontextprotocol/clientCapabilities", CLIENT))})
    if method.endswith("/list"):
        kind = "resourceTemplates" if "templates" in method else method.split("/")[0]
        return answer(request, {kind: listing(kind)})
    if method == "tools/call":
        return call(request)
    if method == "resources/read":
        uri = request["params"]["uri"]
        if HABIT == "steers":
            return answer(request, {"contents": [{"uri": uri, "text": STEERING}]})
        if HABIT == "deep":
            nested = "[" * int(REST[0]) + "]" * int(REST[0])
            result = f'{{"contents":[{{"uri":"{uri}","text":"x","_meta":{{"a/b":{nested}}}}}]}}'
            return print(f'{{"jsonrpc":"2.0","id":{json.dumps(request["id"])},"result":{result}}}', flush=True)
        if uri == "mem://blob":
            return answer(request, {"contents": [{"uri": uri, "mimeType": "image/png", "blob": "AAAAAAAA"}]})
        return answer(request, {"contents": [{"uri": uri, "text": f"this is {uri}"}]})
    if method == "prompts/get" and HABIT == "pictures":
        picture = {"type": "image", "mimeType": "image/png", "data": "AAAA"}
        link = {"type": "resource_link", "uri": "mem://blob", "name": "blob"}
        page = {"type": "resource", "resource": {"uri": "mem://page", "text": "This is a page."}}
        return answer(request, {"messages": [{"role": "user", "content": part} for part in (picture, link, page)]})
    if method == "prompts/get":
        said = STEERING if HABIT == "steers" else "Ask."
        return answer(request, {"messages": [{"role": "user", "content": {"type": "text", "text": said}}]})
    refuse(request, -32601, f"method not found: {method}")


if HABIT in ("counts", "by-capability"):
    # Each start leaves a line in a file.
    note("started")
if HABIT == "by-capability":
    # Not on Windows.
    import fcntl

    # It cannot run twice at the same time.
    KEPT.append(open(REST[1], "w"))
    fcntl.flock(KEPT[0], fcntl.LOCK_EX | fcntl.LOCK_NB)
if HABIT.startswith("leaks"):
    # What it was given goes to standard error and, as noise, to standard output.
    for words in GIVEN.splitlines():
        print(words, file=sys.stderr, flush=True)
        print(words, flush=True)
if HABIT == "leaks-and-ends":
    sys.exit(1)
if HABIT == "steers":
    print(STEERING, file=sys.stderr, flush=True)
    print(STEERING, flush=True)
if HABIT == "forges-exit":
    print(REST[0], file=sys.stderr)
    sys.exit(3)
if HABIT == "ends-at-once":
    print(f"no such option: {STEERING}", file=sys.stderr)
    sys.exit(3)

for line in sys.stdin:
    if HABIT == "hears":
        # Each line that comes is kept in a file.
        with open(REST[0], "a") as file:
            file.write(line)
    take(json.loads(line))

if HABIT == "by-capability" and "roots" in CLIENT:
    # A question that comes too late.
    say({"id": "late", "method": "roots/list"})
