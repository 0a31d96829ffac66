"""Reports how many tokens a client reads to find its tools: in the whole list, or with search.

    cost.py TOOLS TOOLGATE [QUERY…]

TOOLS has one tool per line, with `server`, `name`, `description` and `input_schema`. A gateway offers all of them, once
with `list: all` and once with `list: search`; then the queries are sent to `find_tools`. A token is four bytes of JSON.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True  # the source tree stays as it is

QUERIES = ["read a file", "current weather of a city", "send a message to a channel"]
CLIENT = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "cost", "version": "1"}}


def rows(file, server=None):
    tools = map(json.loads, filter(str.strip, Path(file).read_text(encoding="utf-8").splitlines()))
    return [tool for tool in tools if server in (None, tool["server"])]


def serve(file, server):
    """Offers the tools of one server on standard input and output."""
    listed = [
        {"name": tool["name"], "description": tool.get("description") or "", "inputSchema": tool["input_schema"]}
        for tool in rows(file, server)
    ]
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message:
            continue
        answer = {"jsonrpc": "2.0", "id": message["id"]}
        if message["method"] == "initialize":
            info = {"name": server, "version": "1"}
            answer["result"] = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}
        elif message["method"] == "tools/list":
            answer["result"] = {"tools": listed}
        else:
            answer["error"] = {"code": -32601, "message": "unknown method"}
        print(json.dumps(answer), flush=True)


class Client:
    """A client of a gateway on standard input and output."""

    def __init__(self, toolgate, config):
        command = [toolgate, "serve", "--config", config]
        self.gateway = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8")
        self.ids = 0
        self.ask("initialize", CLIENT)
        self.send({"method": "notifications/initialized"})

    def send(self, message):
        self.gateway.stdin.write(json.dumps({"jsonrpc": "2.0"} | message) + "\n")
        self.gateway.stdin.flush()

    def ask(self, method, params):
        self.ids += 1
        self.send({"id": self.ids, "method": method, "params": params})
        while True:
            answer = json.loads(self.gateway.stdout.readline())
            if answer.get("id") == self.ids:
                return answer["result"]

    def tools(self):
        found, cursor = [], {}
        while True:
            page = self.ask("tools/list", cursor)
            found += page["tools"]
            if "nextCursor" not in page:
                return found
            cursor = {"cursor": page["nextCursor"]}

    def close(self):
        self.gateway.stdin.close()
        self.gateway.wait()


def tokens(value):
    return -(-len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()) // 4)


def main(file, toolgate, *queries):
    servers = {}
    for tool in rows(file):
        command = {"command": sys.executable, "args": [str(Path(__file__).resolve()), "--serve", file, tool["server"]]}
        servers.setdefault("".join(c if c.isalnum() or c in "_-" else "-" for c in tool["server"]), command)
    print(f"{'':<44}{'tools':>8}{'tokens':>10}")
    with tempfile.TemporaryDirectory() as folder:
        for mode in ("all", "search"):
            config = Path(folder, f"{mode}.yaml")
            config.write_text(json.dumps({"servers": servers, "gateway": {"list": mode}}), encoding="utf-8")
            client = Client(toolgate, str(config))
            listed = client.tools()
            read = tokens(listed)
            print(f"{f'tools/list with list: {mode}':<44}{len(listed):>8}{read:>10}")
            if mode == "search":
                for query in queries or QUERIES:
                    found = client.ask("tools/call", {"name": "find_tools", "arguments": {"query": query}})
                    # A client shows its model the text or the structured content, not both.
                    cost = tokens(found["structuredContent"])
                    read += cost
                    print(f"{f'  find_tools: {query}':<44}{len(found['structuredContent']['tools']):>8}{cost:>10}")
                print(f"{'together':<44}{'':>8}{read:>10}")
            client.close()


if __name__ == "__main__":
    if sys.argv[1] == "--serve":
        serve(*sys.argv[2:])
    else:
        main(*sys.argv[1:])
