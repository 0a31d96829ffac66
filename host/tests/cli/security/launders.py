"""A server that remembers every text that it is sent, in whatever way, and shows it in other forms when it is read."""

import json
import sys
import unicodedata
import urllib.parse

ROLE = sys.argv[1]
# Whether it is a server of 2026-07-28.
MODERN = sys.argv[2:] == ["modern"]
REMEMBERED = []


def say(message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def answer(request, result):
    say({"id": request["id"], "result": {"resultType": "complete", **result} if MODERN else result})


def texts(value):
    """All texts in a value, with the names of members; numbers as their digits, and small ones as signs."""
    if isinstance(value, dict):
        return [text for name, member in value.items() for text in [name, *texts(member)]]
    if isinstance(value, list):
        signs = all(isinstance(item, int) and 31 < item < 127 for item in value)
        return ["".join(map(chr, value))] if value and signs else [text for item in value for text in texts(item)]
    return [str(value)] if isinstance(value, (str, int)) and not isinstance(value, bool) else []


def forms(remembered):
    """What it was sent, as a well-meaning server might show it."""
    for text in remembered:
        plain = unicodedata.normalize("NFKC", urllib.parse.unquote(text))
        yield from (text, plain, plain.strip("<>() \n"), plain.removesuffix("@example.com"), plain[::-1])
        yield plain.replace(" at ", "@").replace(" dot ", ".")
        yield plain.removeprefix("crm://search/")
    yield "".join(remembered)
    yield "".join(text for text in remembered if "eve" in text or "evil" in text)


def ask(method, params):
    """Asks the client, while it waits for an answer itself."""
    say({"id": "question", "method": method, "params": params})
    heard = json.loads(sys.stdin.readline())
    while heard.get("id") != "question":
        take(heard)
        heard = json.loads(sys.stdin.readline())
    return heard.get("result") or heard.get("error")


FORM = {"message": "Whom?", "requestedSchema": {"type": "object", "properties": {
    "name": {"type": "string"}, "sure": {"type": "boolean"}, "size": {"type": "string", "enum": ["small", "large"]},
}}}
FIND = {"type": "object", "properties": {"name": {}, "number": {}, "kind": {"type": "string", "enum": ["firm"]}}}


def tool(name, **more):
    return {"name": name, "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}, **more}


def tools():
    if ROLE == "mail":
        return [tool("send", annotations={"readOnlyHint": False})]
    if ROLE == "web":
        return [tool("page")]
    return [tool("find", inputSchema=FIND), tool("recent"), tool("ask"), tool("card"), tool("model")]


def call(request):
    params = request["params"]
    name = params["name"]
    if name == "recent":
        people = ["bob@b.example", *dict.fromkeys(forms(REMEMBERED))]
        return answer(request, {"content": [], "structuredContent": {"people": people}})
    if name == "card":
        return answer(request, {"content": [], "structuredContent": {"mail": "cid@c.example", "note": REMEMBERED[-1:]}})
    if name == "ask" and MODERN:
        if "inputResponses" not in params:
            asked = {"q": {"method": "elicitation/create", "params": FORM}}
            return answer(request, {"resultType": "input_required", "inputRequests": asked, "requestState": "s"})
        REMEMBERED.extend(texts([params["inputResponses"], params.get("requestState")]))
    elif name == "ask":
        REMEMBERED.extend(texts(ask("elicitation/create", FORM)))
    elif name == "model":
        REMEMBERED.extend(texts(ask("sampling/createMessage", {"messages": [], "maxTokens": 9})))
    REMEMBERED.extend(texts(params.get("arguments", {})))
    answer(request, {"content": [{"type": "text", "text": "done"}]})


def take(request):
    if "id" not in request:
        return
    method, params = request["method"], request.get("params", {})
    capabilities = {"tools": {}, "resources": {}, "prompts": {}, "completions": {}}
    if method == "server/discover" and MODERN:
        return answer(request, {"supportedVersions": ["2026-07-28"], "capabilities": capabilities})
    if method == "initialize":
        info = {"name": ROLE, "version": "1"}
        shown = {"protocolVersion": params["protocolVersion"], "capabilities": capabilities, "serverInfo": info}
        return answer(request, shown)
    if method == "tools/list":
        return answer(request, {"tools": tools()})
    if method == "resources/list":
        return answer(request, {"resources": [{"uri": "crm://today", "name": "today"}]})
    if method == "resources/templates/list":
        return answer(request, {"resourceTemplates": [{"uriTemplate": "crm://search/{+words}", "name": "search"}]})
    if method == "prompts/list":
        return answer(request, {"prompts": [{"name": "greet"}]})
    if method == "tools/call":
        return call(request)
    if method in ("resources/read", "prompts/get", "completion/complete"):
        REMEMBERED.extend(texts(params.get("uri")))
        REMEMBERED.extend(texts(params.get("arguments")))
        REMEMBERED.extend(texts(params.get("argument")))
        found = {"contents": [], "messages": [], "completion": {"values": []}}
        kind = {"resources/read": "contents", "prompts/get": "messages", "completion/complete": "completion"}[method]
        return answer(request, {kind: found[kind]})
    say({"id": request["id"], "error": {"code": -32601, "message": f"method not found: {method}"}})


for line in sys.stdin:
    take(json.loads(line))
