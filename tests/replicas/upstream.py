"""An MCP server of 2026-07-28 behind all replicas, which counts how often each call was executed.

Prints its port, then serves `/mcp`; a number as argument adds so many tools, `look_0` and so on. `GET /executions`
answers with a map from the id of a call to the replicas that had it executed; a replica says its name in the header `X-Replica`.
"""

import asyncio
import json
import sys

EXECUTIONS = {}
NAMESPACE = "io.modelcontextprotocol"


def tool(name, **more):
    properties = {"id": {"type": "string"}, "seconds": {"type": "number"}}
    schema = {"type": "object", "properties": properties, "required": ["id"]}
    return {"name": name, "description": f"The tool {name}.", "inputSchema": schema, **more}


# `work` has no annotations, so nobody can know whether it may be repeated.
TOOLS = [tool("work"), tool("look", annotations={"readOnlyHint": True}), tool("ask")]
MORE = int(sys.argv[1]) if len(sys.argv) > 1 else 0
TOOLS += [tool(f"look_{number}", annotations={"readOnlyHint": True}) for number in range(MORE)]


async def call(params, replica):
    arguments = params.get("arguments", {})
    if params["name"] == "ask" and "inputResponses" not in params:
        form = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
        elicitation = {"mode": "form", "message": "what is your name?", "requestedSchema": form}
        requests = {"who": {"method": "elicitation/create", "params": elicitation}}
        return {"resultType": "input_required", "inputRequests": requests, "requestState": "s"}
    # Counted when it begins: a call that is given up half way has been executed too.
    EXECUTIONS.setdefault(arguments["id"], []).append(replica)
    await asyncio.sleep(arguments.get("seconds", 0))
    said = params["inputResponses"]["who"] if params["name"] == "ask" else replica
    text = said if isinstance(said, str) else json.dumps(said)
    return {"resultType": "complete", "content": [{"type": "text", "text": text}]}


async def answer(message, replica):
    """The result of a request, or an error; `None` for a notification."""
    method, cached = message.get("method"), {"resultType": "complete", "ttlMs": 60_000, "cacheScope": "public"}
    if "id" not in message:
        return None
    if method == "tools/call":
        return {"result": await call(message["params"], replica)}
    if method == "tools/list":
        return {"result": {**cached, "tools": TOOLS}}
    if method == "server/discover":
        info = {f"{NAMESPACE}/serverInfo": {"name": "upstream", "version": "1"}}
        about = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, "_meta": info}
        return {"result": {**cached, **about}}
    return {"error": {"code": -32601, "message": f"no such method: {method}"}}


async def respond(path, headers, body):
    """The status and the text of a response."""
    if path == "/executions":
        return "200 OK", json.dumps(EXECUTIONS)
    message = json.loads(body or "{}")
    answered = await answer(message, headers.get("x-replica", "?"))
    if answered is None:
        return "202 Accepted", ""
    # A server of this version answers an unknown method with this status.
    status = "404 Not Found" if answered.get("error", {}).get("code") == -32601 else "200 OK"
    return status, json.dumps({"jsonrpc": "2.0", "id": message["id"], **answered})


async def serve(reader, writer):
    """Answers the requests of one connection, one after the other."""
    try:
        while head := (await reader.readuntil(b"\r\n\r\n")).decode("latin-1"):
            first, *lines = head.strip().split("\r\n")
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
            body = await reader.readexactly(int(headers.get("content-length", 0)))
            status, text = await respond(first.split()[1], headers, body)
            content = text.encode()
            about = f"Content-Type: application/json\r\nContent-Length: {len(content)}"
            writer.write(f"HTTP/1.1 {status}\r\n{about}\r\n\r\n".encode() + content)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass  # a replica that was killed
    finally:
        writer.close()


async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
