"""A gate without asyncio: in threads, with a question to a person, and closed."""

import os
import sys
import tempfile
import threading
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from subjects import TOOLGATE, logic

from toolgate import StdioServer, SyncGate


class SyncCalls(unittest.TestCase):
    def setUp(self):
        self.server = StdioServer(TOOLGATE, "demo-server")

    def test_threads_call_at_once(self):
        with SyncGate(logic(), {"demo": self.server}) as gate, ThreadPoolExecutor(8) as pool:
            self.assertIn("demo__add", [tool.name for tool in gate.tools()])
            results = list(pool.map(lambda n: gate.call("demo.add", {"a": n, "b": 1}), range(32)))
        self.assertEqual([result.text for result in results], [str(n + 1) for n in range(32)])

    def test_a_person_is_asked_in_a_thread_that_may_block(self):
        asked = []

        def approve(question):
            asked.append((question.tool.tool, threading.current_thread() is gate.thread))
            return True

        with SyncGate(logic(), {"demo": self.server}, approve=approve) as gate:
            gate.settings.policy.servers[0].ask = ["add"]
            self.assertEqual(gate.call("demo.add", "a: 1, b: 2").text, "3")
        self.assertEqual(asked, [("add", False)])

    def test_a_closed_gate_leaves_no_process_and_no_thread(self):
        with SyncGate(logic(), {"demo": self.server}) as gate:
            gate.call("demo.add", "a: 1, b: 2")
            process = self.server.process.pid
        with self.assertRaises(ProcessLookupError):
            os.kill(process, 0)
        self.assertFalse(gate.thread.is_alive())
        gate.close()
        with self.assertRaisesRegex(RuntimeError, "the gate is closed"):
            gate.call("demo.add")

    def test_a_server_that_does_not_end_is_killed_with_its_children(self):
        # The child would say after a minute that it is still there; the pipe ends early only if it is killed.
        with tempfile.TemporaryDirectory() as folder:
            pipe = Path(folder, "pipe")
            os.mkfifo(pipe)
            script = (
                "import json, subprocess, sys, time\n"
                f"child = ['sh', '-c', 'exec >{pipe}; sleep 60; echo alive']\n"
                "subprocess.Popen(child, stdin=subprocess.DEVNULL)\n"
                "answer = {'protocolVersion': '2025-11-25', 'capabilities': {}}\n"
                "id = json.loads(sys.stdin.readline())['id']\n"
                "print(json.dumps({'jsonrpc': '2.0', 'id': id, 'result': answer}), flush=True)\n"
                "time.sleep(60)\n"
            )
            server = StdioServer(sys.executable, "-c", script)
            gate = SyncGate(logic(), {"stubborn": server})
            gate.run(server.open())
            with pipe.open() as output:
                gate.close()
                self.assertEqual(output.read(), "")
