"""Calls of a gate with real servers, which fail, die, hang or are missing."""

import asyncio
import json
import logging
import os
import sys
import tempfile
import time
import unittest
from pathlib import Path
from unittest import mock

from subjects import TOOLGATE, logic

from toolgate import Case, ComponentCrashed, Failed, Gate, Refused, StdioServer, SyncGate
from toolgate.component import FUEL
from toolgate.programs import find_program
from toolgate.types import CallLimit, CustomMask, HttpFailure, Masks, ResultRule, Rule, SearchSettings, ServerSettings

logging.getLogger("asyncio").setLevel(logging.ERROR)  # do not warn about slow tests
logging.getLogger("toolgate").setLevel(logging.CRITICAL)  # crashes are what some tests are about


def serve(log):
    """A server whose tools record each execution in a file, and then do what their arguments say."""
    tool = {"inputSchema": {"type": "object", "properties": {"then": {"type": "string"}, "bytes": {"type": "integer"}}}}
    tools = [{"name": "charge", **tool}, {"name": "look", "annotations": {"readOnlyHint": True}, **tool}]
    for line in sys.stdin:
        message = json.loads(line)
        method, params, answer = message["method"], message.get("params"), None
        if method == "initialize":
            answer = {"result": {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}}}
        elif method == "tools/list":
            at = int(params.get("cursor", "0"))  # one page per tool
            more = {"nextCursor": str(at + 1)} if at + 1 < len(tools) else {}
            answer = {"result": {"tools": tools[at : at + 1], **more}}
        elif method == "tools/call":
            with open(log, "a+", encoding="utf-8") as file:
                file.write("run\n")
                file.seek(0)
                runs = len(file.readlines())
            then = params["arguments"].get("then")
            if then == "die" or (then == "die once" and runs == 1):
                sys.exit(3)
            if then == "refuse":
                answer = {"error": {"code": -32000, "message": "not today"}}
            elif then != "hang":
                print("a stray line")
                text = "x" * params["arguments"].get("bytes", 0) or f"run {runs}"
                answer = {"result": {"content": [{"type": "text", "text": text}]}}
        if answer and "id" in message:
            print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}), flush=True)


class Own:
    """A server of a host: its tools, and what each call raises or returns, the last of them again and again."""

    def __init__(self, tools, *answers):
        self.listed, self.answers, self.calls = tools, list(answers), []

    async def open(self):
        pass

    async def tools(self):
        return self.listed

    async def call(self, tool, arguments):
        self.calls.append((tool, arguments))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def close(self):
        pass


class Calls(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.log = Path(self.folder.name, "log")
        demo, shop = StdioServer(TOOLGATE, "demo-server"), StdioServer(sys.executable, __file__, "serve", self.log)
        self.servers = {"demo": demo, "shop": shop}
        self.logic = logic()
        self.component = self.logic.component
        self.component.fuel = FUEL
        self.gate = Gate(self.logic, self.servers)

    async def asyncTearDown(self):
        for server in self.servers.values():
            await server.close()
        self.folder.cleanup()

    @property
    def runs(self):
        return len(self.log.read_text().splitlines()) if self.log.exists() else 0

    async def check(self, name, arguments, code, attempts, text=None):
        result = await self.gate.call(name, arguments)
        self.assertEqual((result.code, result.attempts), (code, attempts), result.text)
        if text is not None:
            self.assertIn(text, result.text)
        return result

    async def test_a_tool_answers(self):
        await self.check("demo__add", "a: 1, b: 2", "ok", 1, "3")
        await self.check("shop.charge", "", "ok", 1, "run 1")

    async def test_a_tool_that_fails_says_so(self):
        await self.check("demo.fail", "message: no luck", "tool-error", 1, "no luck")

    async def test_a_bad_name_is_a_result_that_a_model_can_read(self):
        await self.check("nonsense", "", "invalid-name", 0)
        await self.check("nobody.add", "", "unknown-server", 0, "Available servers: demo, shop")
        await self.check("demo.ad", "", "unknown-tool", 0, "add")

    async def test_arguments_that_do_not_fit_are_not_sent(self):
        await self.check("demo.add", "a: 1", "invalid-arguments", 0, '"b"')
        await self.check("shop.charge", '{"bytes": "many"}', "invalid-arguments", 0)
        self.assertEqual(self.runs, 0)

    async def test_an_error_of_the_protocol_is_shown(self):
        await self.check("shop.charge", "then: refuse", "rpc-error", 1, "not today")

    async def test_a_tool_that_may_have_run_is_not_run_again(self):
        await self.check("shop.charge", "then: die", "outcome-unknown", 1)
        self.assertEqual(self.runs, 1)
        await self.check("shop.charge", "", "ok", 2, "run 2")  # the next call finds the server gone, and opens a new session

    async def test_a_tool_that_changes_nothing_is_run_again_once(self):
        await self.check("shop.look", "then: die once", "ok", 2, "run 2")
        self.assertEqual(self.runs, 2)
        await self.check("shop.look", "then: die", "server-unavailable", 2)

    async def test_a_server_that_is_gone_before_anything_was_sent_is_started_again(self):
        await self.check("shop.charge", "", "ok", 1)
        self.servers["shop"].process.kill()
        await self.servers["shop"].process.wait()
        await self.check("shop.charge", "", "ok", 2, "run 2")
        self.assertEqual(self.runs, 2)

    async def test_no_answer_in_time_is_never_tried_again(self):
        await self.check("shop.look", "", "ok", 1)  # start the server first, so that the limit measures only the call
        self.gate.timeout = 2
        await self.check("shop.look", "then: hang", "timeout", 1)
        await self.check("shop.charge", "then: hang", "outcome-unknown", 1)
        self.assertEqual(self.runs, 3)

    async def test_a_server_that_does_not_start_costs_the_others_nothing(self):
        self.servers["gone"] = StdioServer("/no/such/program")
        self.gate = Gate(self.logic, self.servers)
        self.gate.settings.bare_names = True  # a bare name asks all servers
        await self.check("add", "a: 1, b: 2", "ok", 1, "3")
        await self.check("gone.tool", "", "server-unavailable", 0)

    async def test_a_person_is_asked_where_a_rule_wants_it(self):
        self.gate.settings.policy.servers[1].ask = ["charge"]
        await self.check("shop.charge", "", "declined", 0, "could not ask its user")
        for said, code, attempts in [(False, "declined", 0), (True, "ok", 1)]:
            async def approve(question):
                self.assertEqual(question.tool.tool, "charge")
                return said
            self.gate.approve = approve
            await self.check("shop.charge", "", code, attempts)
        self.assertEqual(self.runs, 1)

    async def test_rules_see_what_happened_before(self):
        deny = Rule(name="after", tools=["shop.charge"], condition='"seen" in labels', effect="deny")
        limit = CallLimit(calls=2, per_ms=60_000, by="principal")
        budget = Rule(name="budget", tools=["shop.look"], effect="deny", limit=limit)
        self.gate.settings.rules.lists = [[deny, budget]]
        self.gate.settings.rules.results = [ResultRule(tools="shop.look", labels=["seen"], trusted=False)]
        await self.check("shop.charge", "", "ok", 1)
        await self.check("shop.look", "", "ok", 1)
        await self.check("shop.charge", "", "not-allowed", 0, 'rule "after"')
        await self.check("shop.look", "", "ok", 1)
        await self.check("shop.look", "", "not-allowed", 0, "more than 2 calls in 1 minute; try again in")

    async def test_tools_are_found_and_called_through_the_gates_own(self):
        self.gate.settings.search = SearchSettings(above_tools=0, above_tokens=0)
        await self.check("find_tools", "query: charge", "ok", 0, '"name":"charge"')
        await self.check("call_tool", '{"name": "shop.charge", "arguments": {}}', "ok", 1)

    async def test_calls_are_read_from_a_text(self):
        text = "I look first.\nAction: shop.look\nAction Input: {}\n"
        [read] = self.logic.read_calls(text, await self.gate.tools())
        self.assertEqual((read.name, read.arguments, read.form), ("shop__look", "{}", "react"))
        await self.check(read.name, read.arguments, "ok", 1)

    async def test_a_setting_holds_by_its_name_in_python(self):
        self.gate.settings.policy.read_only = True
        await self.check("shop.charge", "", "not-allowed", 0)
        await self.check("shop.look", "", "ok", 1)
        self.gate = Gate(self.logic, self.servers)
        masks = Masks(custom=[CustomMask(pattern="run", replacement="***")])
        self.gate.settings.server_settings = [ServerSettings(server="shop", masks=masks, structured_text=False)]
        await self.check("shop.charge", "", "ok", 1, "*** 2")

    async def test_a_setting_of_a_wrong_type_in_a_list_sends_nothing(self):
        self.gate.settings.policy.servers[1].ask.append(5)  # a Python list accepts anything; the component does not
        with self.assertRaises(TypeError):
            await self.gate.call("shop.charge")
        self.assertEqual(self.runs, 0)

    async def test_a_setting_that_comes_too_late_is_refused(self):
        await self.check("shop.look", "", "ok", 1)
        self.gate.settings.policy.servers[1].ask.append("charge")
        with self.assertRaises(Refused):
            await self.gate.call("shop.charge")
        self.assertEqual(self.runs, 1)

    async def test_a_long_text_is_kept_whole_and_cut(self):
        self.gate.settings.spill, self.gate.settings.max_result_bytes = True, 100
        result = await self.check("shop.look", "bytes: 5000", "ok", 1, "TRUNCATED")
        kept = next(word for word in result.text.split() if "result-" in word).strip("[].,;")
        self.addCleanup(os.remove, kept)
        self.assertEqual(Path(kept).read_text(), "x" * 5000)

    async def test_calls_run_side_by_side(self):
        calls = [("demo.sleep", "seconds: 0.2"), ("shop.look", ""), ("demo.add", "a: 1, b: 1")]
        results = await asyncio.gather(*(self.gate.call(*call) for call in calls))
        self.assertEqual([result.code for result in results], ["ok"] * 3)
        self.assertEqual(self.gate.executions, {})

    async def test_a_call_goes_on_on_a_new_instance_where_one_crashes(self):
        await self.check("demo.add", "a: 1, b: 1", "ok", 1)
        first, call = self.gate.instance, self.servers["shop"].call

        async def exhausting(tool, arguments):
            first.fuel = 1
            return await call(tool, arguments)

        self.servers["shop"].call = exhausting
        await self.check("shop.charge", "", "ok", 1, "run 1")
        self.assertIsNot(self.gate.instance, first)
        self.assertEqual(self.runs, 1)

    async def test_a_call_that_crashes_two_instances_ends_alone(self):
        self.component.fuel = 10_000_000
        await self.check("demo.echo", "x" * 4_000_000, "internal", 0)
        await self.check("shop.charge", "bytes: 4000000", "internal", 1)
        self.assertEqual(self.runs, 1)
        await self.check("demo.add", "a: 1, b: 2", "ok", 1, "3")

    async def test_a_broken_component_does_not_hide_that_a_tool_may_have_run(self):
        call = self.servers["shop"].call

        async def lost(tool, arguments):
            self.component.fuel = self.gate.instance.fuel = 1
            await call(tool, arguments)
            raise Failed("closed", sent=True)

        self.servers["shop"].call = lost
        await self.check("shop.look", "", "outcome-unknown", 1)
        self.assertEqual(self.runs, 1)

    async def test_a_directive_of_a_later_version_is_a_failure(self):
        event = await self.gate.carry_out(Case("dance", 3), time.monotonic() + 1)
        self.assertEqual((event.tag, event.payload.failure.tag), ("failed", "protocol"))

    async def test_an_error_of_a_transport_is_a_result(self):
        async def broken(tool, arguments):
            raise KeyError(tool)

        self.servers["shop"].call = broken
        await self.check("shop.charge", "", "outcome-unknown", 1)
        result = await self.gate.call("shop.look")
        self.assertIn("KeyError", result.text)

    async def test_a_transport_that_gives_a_wrong_value_is_a_result(self):
        for answer in [[], None, 5, {"content": {1, 2}}]:
            async def call(tool, arguments, answer=answer):
                return answer

            self.servers["shop"].call = call
            await self.check("shop.charge", "", "outcome-unknown", 1)

        async def refusing(tool, arguments):
            raise Failed("http", "404", sent=False)

        self.servers["shop"].call = refusing
        result = await self.gate.call("shop.charge")
        self.assertIn("HttpFailure", result.text)

    async def test_what_a_transport_raises_without_a_phase_was_sent_so_a_writing_tool_does_not_run_twice(self):
        not_found = HttpFailure(status=404, session=True, challenge=False)
        for raised in [
            KeyError("x"), Refused("of another gate"), TimeoutError(), ConnectionResetError("reset"), ComponentCrashed("x"),
            Failed("connect", "reset"), Failed("closed"), Failed("exited", 1), Failed("protocol"), Failed("http", not_found),
            Failed("http", "404"), Failed("nonsense"), Failed("closed", sent=None),
        ]:  # fmt: skip
            server = Own([{"name": "write"}], raised)
            result = await Gate(self.logic, {"own": server}).call("own.write")
            self.assertEqual((result.code, len(server.calls)), ("outcome-unknown", 1), raised)
        for raised in [Failed("connect", "refused", sent=False), Failed("http", not_found, sent=False)]:
            server = Own([{"name": "write"}], raised, {"content": []})
            result = await Gate(self.logic, {"own": server}).call("own.write")
            self.assertEqual((result.code, result.attempts), ("ok", 2), raised)

    async def test_tools_and_results_are_taken_as_mcp_has_them(self):
        schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
        hints = {"title": "Look", "readOnlyHint": True, "destructiveHint": None}
        whole = {"name": "look", "title": "Look", "description": "Looks", "inputSchema": schema, "outputSchema": {}}
        whole |= {"annotations": hints, "icons": [], "execution": {}, "_meta": {}}
        for tool in [whole, {"name": "look", "input_schema": json.dumps(schema), "annotations": {"read_only": True}}]:
            for answer in ['{"content":[{"type":"text","text":"done"}]}', {"content": [{"type": "text", "text": "done"}]}]:
                server = Own([tool], answer)
                gate = Gate(self.logic, {"own": server})
                gate.settings.policy.read_only = True
                result = await gate.call("own.look", {"n": "5"})
                self.assertEqual((result.code, result.text, server.calls), ("ok", "done", [("look", '{"n":5}')]))
                self.assertEqual((await gate.call("own.look")).code, "invalid-arguments")
        for tools, words in [
            ([{"name": "a", "inputschema": {}}], "no member 'inputschema'; did you mean 'inputSchema'?"),
            ([{"name": "a", "annotations": {"readonlyHint": True}}], "no member 'readonlyHint'"),
            ([{"name": "a", "annotations": {"readOnlyHint": "yes"}}], "read_only"),
            ([{"description": "x"}], "the name of a tool"),
            ({"tools": []}, "must be a list"),
            ([5], "a tool must be a record"),
        ]:
            result = await Gate(self.logic, {"own": Own(tools)}).call("own.a")
            self.assertEqual((result.code, result.attempts), ("rpc-error", 0), result.text)
            self.assertIn(words, result.text)

    async def test_arguments_that_are_no_json_are_a_result(self):
        cyclic = {}
        cyclic["self"] = cyclic
        for arguments in [{"n": {1, 2}}, cyclic]:
            result = await self.gate.call("shop.charge", arguments)
            self.assertEqual((result.code, result.is_error), ("invalid-arguments", True))
        self.assertEqual(self.runs, 0)

    async def test_only_true_approves_and_no_server_is_blamed_for_the_rest(self):
        self.gate.settings.policy.servers[1].ask = ["charge"]
        for said, reason in [
            ("yes", "must return True, False or None, not 'yes'"),
            (1, "must return True, False or None, not 1"),
            (KeyError("lost"), "`approve` raised KeyError('lost')"),
            (TimeoutError("slow"), "`approve` raised TimeoutError('slow')"),
            (Refused("no"), "`approve` raised Refused('no')"),
            (Failed("closed"), "`approve` raised Failed('closed')"),
        ]:
            async def approve(question):
                if isinstance(said, Exception):
                    raise said
                return said
            self.gate.approve = approve
            with self.subTest(said=said), self.assertLogs("toolgate", logging.ERROR) as logs:
                result = await self.check("shop.charge", "", "not-allowed", 0, reason)
                self.assertNotIn("protocol", result.text)
                self.assertEqual(len(logs.records), 1)
                self.assertEqual(logs.records[0].exc_info is not None, isinstance(said, Exception))
        self.gate.approve = lambda question: True  # no `async`
        await self.check("shop.charge", "", "not-allowed", 0, "can't be used in 'await' expression")
        self.assertEqual(self.runs, 0)

    async def test_tools_are_listed_and_named_for_the_model(self):
        self.servers["gone"] = StdioServer("/no/such/program")
        self.gate = Gate(self.logic, self.servers)
        self.gate.settings.policy.read_only = True
        names = [tool.name for tool in await self.gate.tools()]
        self.assertIn("shop__look", names)
        self.assertNotIn("shop__charge", names)
        self.assertEqual(list(self.gate.unavailable), ["gone"])
        self.assertIn("shop.look", [tool.name for tool in await self.gate.tools("dot")])
        self.assertEqual(len(self.gate.journal), 2)  # only what each server offered last

    async def test_numbers_keep_every_digit(self):
        async def exact(tool, arguments):
            self.assertEqual(arguments, '{"bytes":0,"n":1.10,"id":12345678901234567890123}')
            return '{"content":[],"structuredContent":{"price":1.10,"id":12345678901234567890123}}'

        self.servers["shop"].call = exact
        result = await self.gate.call("shop.look", '{"bytes": 0, "n": 1.10, "id": 12345678901234567890123}')
        self.assertEqual(result.structured, '{"price":1.10,"id":12345678901234567890123}')

    async def test_arguments_of_several_lines_are_one_message(self):
        await self.check("demo.add", '{"a":\n1,\r\n"b":2}', "ok", 1, "3")
        await self.servers["demo"].request("ping", '{\n}')

    async def test_arguments_may_be_a_dictionary_and_may_be_no_unicode(self):
        await self.check("demo.add", {"a": 1, "b": 2}, "ok", 1, "3")
        await self.check("demo.echo", "text: \ud800!", "ok", 1, "!")

    async def test_settings_may_have_fewer_and_more_servers_than_there_are_connections(self):
        settings = self.logic.default_settings(["demo", "shop", "elsewhere"])
        self.gate = Gate(self.logic, self.servers, settings)
        await self.check("elsewhere.tool", "", "server-unavailable", 0, "no connection")
        with self.assertRaisesRegex(ValueError, "the settings have no server shop"):
            Gate(self.logic, self.servers, self.logic.default_settings(["demo"]))

    async def test_servers_and_settings_of_a_wrong_type_are_refused_in_words(self):
        demo = self.servers["demo"]
        for servers, settings, error, refused in [
            (self.servers, "x", TypeError, "settings must be a record Settings, not a value of type str"),
            (self.servers, {"policy": {}}, TypeError, "not a value of type dict: .*from_json"),
            (self.servers, {}, TypeError, "not a value of type dict"),  # it must not mean the default
            (demo, None, TypeError, "servers must be a dictionary such as .*, not a value of type StdioServer"),
            ({"demo": "toolgate demo-server"}, None, TypeError, r"write StdioServer\('toolgate', 'demo-server'\)"),
            ({"demo": None}, None, TypeError, "'demo' must have the methods open, tools, call, close, unlike None"),
            ({"": demo}, None, ValueError, "the id of a server must have letters.*, not ''"),
            ({"a.b": demo}, None, ValueError, "not 'a.b'"),
            ({1: demo}, None, TypeError, "the id of a server must be a text, not 1"),
        ]:
            for kind in (Gate, SyncGate):
                with self.subTest(refused, kind=kind), self.assertRaisesRegex(error, refused):
                    kind(self.logic, servers, settings)

    async def test_a_program_that_path_does_not_have_is_found_beside_python(self):
        scripts, elsewhere = Path(self.folder.name, "scripts"), Path(self.folder.name, "elsewhere")
        for folder in (scripts, elsewhere):
            folder.mkdir()
        (scripts / "toolgate").symlink_to(TOOLGATE)
        with mock.patch("sysconfig.get_path", return_value=str(scripts)):
            with mock.patch.dict(os.environ, PATH=str(elsewhere)):
                self.servers["demo"] = StdioServer("toolgate", "demo-server")
                self.gate = Gate(self.logic, self.servers)
                await self.check("demo.add", "a: 1, b: 2", "ok", 1, "3")
            path = {"PATH": str(elsewhere)}
            self.assertEqual(find_program("toolgate", path), str(scripts / "toolgate"))
            self.assertEqual(find_program("./toolgate", path), "./toolgate")
            (elsewhere / "toolgate").symlink_to(TOOLGATE)
            self.assertEqual(find_program("toolgate", path), "toolgate")


if __name__ == "__main__":
    serve(sys.argv[2])
