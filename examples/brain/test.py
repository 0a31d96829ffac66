"""Tests the rule with a real server, and that everything else is decided as usual: `python test.py BRAIN.WASM TOOLGATE`."""

import json
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

CASES = Path(__file__).resolve().parents[2] / "tests" / "cases"


def serve(log):
    """A server with a writing and a reading tool, which only record that they ran."""
    schema = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
    tools = [{"name": "write", "description": "Writes a file", "inputSchema": schema},
             {"name": "read", "description": "Reads a file", "inputSchema": schema, "annotations": {"readOnlyHint": True}}]
    for line in sys.stdin:
        message = json.loads(line)
        method, params, result = message["method"], message.get("params"), None
        if method == "initialize":
            result = {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}},
                      "serverInfo": {"name": "files", "version": "1"}}
        elif method == "tools/list":
            result = {"tools": tools}
        elif method == "tools/call":
            with open(log, "a", encoding="utf-8") as file:
                file.write(f"{params['name']} {params['arguments']['path']}\n")
            result = {"content": [{"type": "text", "text": "done"}]}
        if "id" in message:
            answer = {"result": result} if result else {"error": {"code": -32601, "message": "no such method"}}
            print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}), flush=True)


class Rule(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.log = Path(self.folder.name, "log")

    def command(self, *arguments, logic=None, server=None):
        """Returns the toolgate command line with this component and server."""
        config = Path(self.folder.name, "toolgate.json")
        entry = {"command": sys.executable, "args": [__file__, "serve", str(self.log)], **(server or {})}
        config.write_text(json.dumps({"version": 1, "servers": {"files": entry}}))
        return [TOOLGATE, "--config", config, "--logic", logic or BRAIN, *arguments]

    def toolgate(self, *arguments, text="", **options):
        """Runs toolgate, and returns its exit code and its output."""
        command = self.command(*arguments, **options)
        ran = subprocess.run(command, input=text, capture_output=True, text=True, timeout=120, check=False)
        return ran.returncode, ran.stdout, ran.stderr

    @property
    def ran(self):
        return self.log.read_text().splitlines() if self.log.exists() else []

    def test_a_tool_that_writes_stays_in_the_folder(self):
        code, _, error = self.toolgate("call", "files.write", "path: /etc/passwd")
        self.assertEqual(code, 5, error)
        self.assertIn('"/etc/passwd" is outside of /srv/agent', error)
        self.assertEqual(self.ran, [])
        code, answer, error = self.toolgate("call", "files.write", "path: /srv/agent/notes.txt")
        self.assertEqual((code, answer), (0, "done\n"), error)
        self.assertEqual(self.ran, ["write /srv/agent/notes.txt"])

    def test_a_tool_that_only_reads_may_go_anywhere(self):
        self.assertEqual(self.toolgate("call", "files.read", "path: /etc/passwd")[:2], (0, "done\n"))

    def test_what_the_configuration_says_of_a_tool_counts(self):
        trusted = {"tools": {"write": {"annotations": {"read_only": True}}}}
        self.assertEqual(self.toolgate("call", "files.write", "path: /etc/passwd", server=trusted)[0], 0)

    def test_nobody_is_asked_about_what_is_refused_anyway(self):
        code, _, error = self.toolgate("call", "files.write", "path: ../x", server={"ask": ["*"]})
        self.assertEqual(code, 5, error)
        self.assertIn("outside of /srv/agent", error)
        self.assertNotIn("approv", error)

    def test_a_dry_run_shows_the_rule_and_the_way_to_it(self):
        code, _, error = self.toolgate("route", "files__write", "path: ~/x")
        self.assertEqual(code, 5, error)
        for words in ['not-allowed: tool "write" of server "files" is refused',
                      "arguments: read as key-value", '"~/x" is outside of /srv/agent']:
            self.assertIn(words, error)
        self.assertEqual(self.toolgate("route", "files__write", "path: x")[0], 0)
        self.assertEqual(self.ran, [])

    def test_models_are_told_of_the_rule(self):
        code, listing, error = self.toolgate("tools", "--json")
        self.assertEqual(code, 0, error)
        described = {tool["name"]: tool["description"] for tool in json.loads(listing)["tools"]}
        self.assertEqual(described, {
            "files__write": "Writes a file (paths: only in /srv/agent)", "files__read": "Reads a file"})

    def test_the_rule_holds_behind_the_gateway(self):
        client = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
        call = {"name": "files__write", "arguments": {"path": "/etc/passwd"}}
        lines = [{"id": 1, "method": "initialize", "params": client}, {"method": "notifications/initialized"},
                 {"id": 2, "method": "tools/call", "params": call}]
        gateway = subprocess.Popen(self.command("serve"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        with gateway:
            gateway.stdin.write("".join(json.dumps({"jsonrpc": "2.0", **line}) + "\n" for line in lines))
            gateway.stdin.flush()
            answer = next(message for message in map(json.loads, gateway.stdout) if message.get("id") == 2)
        self.assertTrue(answer["result"]["isError"])
        self.assertIn("outside of /srv/agent", answer["result"]["content"][0]["text"])
        self.assertEqual(self.ran, [])

    def test_all_else_is_decided_as_toolgate_decides_it(self):
        asked = [row["ask"] for file in sorted(CASES.glob("*.json")) for row in json.loads(file.read_text())]
        self.assertGreater(len(asked), 200)
        text = "".join(json.dumps(ask) + "\n" for ask in asked)
        ours = Path(self.folder.name, "logic.wasm")
        subprocess.run([TOOLGATE, "component", "--out", ours], check=True, capture_output=True, timeout=60)
        (_, expected, _), (_, found, _) = (self.toolgate("eval", logic=logic, text=text) for logic in (ours, BRAIN))
        # Not `splitlines`, which takes a line separator within a string for the end of a line.
        expected, found = (answers.removesuffix("\n").split("\n") for answers in (expected, found))
        for ask, *answers in zip(asked, expected, found, strict=True):
            self.assertEqual(*answers, ask)


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(sys.argv[2])
    else:
        # The program may be a name in PATH.
        program = shutil.which(sys.argv[2]) or sys.argv[2]
        BRAIN, TOOLGATE = (str(Path(path).resolve()) for path in (sys.argv[1], program))
        unittest.main(argv=sys.argv[:1])
