"""Questions to the component, and limits."""

import json
import unittest

from subjects import logic

from toolgate import Case, ComponentCrashed, Refused, Tool, tool_from_json
from toolgate.types import CustomMask, Rule, RuleSet, ToolRef

TOOLS = {
    "mail": [tool_from_json({"name": "send_mail", "description": "Sends an e-mail", "annotations": {"readOnlyHint": "no"}})],
    "files": [tool_from_json({"name": "read", "description": "Reads a file", "annotations": {"readOnlyHint": True}})],
}


class Questions(unittest.TestCase):
    def setUp(self):
        self.logic = logic()

    def test_arguments_are_read_as_the_schema_asks(self):
        self.assertEqual(self.logic.parse_arguments("a: 007").arguments, '{"a":"007"}')
        schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
        parsed = self.logic.parse_arguments("a: 7", schema)
        self.assertEqual((parsed.arguments, parsed.stage), ('{"a":7}', "key-value"))
        self.assertEqual(self.logic.parse_arguments("a: 7", json.dumps(schema)), parsed)

    def test_a_refusal_says_what_is_wrong_and_has_the_error_of_the_wit(self):
        with self.assertRaises(Refused) as raised:
            self.logic.parse_arguments("[" * 300 + "]" * 300)
        self.assertEqual(raised.exception.problem, Case("too-deep", 256))
        with self.assertRaisesRegex(Refused, "must be in 'server.tool' format") as raised:
            self.logic.split_name("nonsense")
        self.assertEqual(raised.exception.problem.problem, "invalid-name")
        with self.assertRaisesRegex(Refused, "unknown-group: .*secrts"):
            self.logic.mask("x", groups=["secrts"])

    def test_secrets_are_masked(self):
        self.assertEqual(self.logic.mask("password: hunter22"), "password: [MASKED_PASSWORD]")
        self.assertEqual(self.logic.mask("me@example.com", groups=["kubernetes"]), "me@example.com")
        self.assertEqual(self.logic.mask("abc", custom=[CustomMask(pattern="b", replacement="-")]), "a-c")
        self.assertEqual(self.logic.mask_json('{"password": "hunter22"}'), '{"password": "[MASKED_PASSWORD]"}')

    def test_names_lead_to_tools(self):
        self.assertEqual(self.logic.split_name("files__read"), ToolRef(server="files", tool="read"))
        self.assertEqual(self.logic.split_name("mcp__files__read"), ToolRef(server="files", tool="read"))
        self.assertEqual(self.logic.resolve_name("send_mail", TOOLS, bare_names=True).tool.server, "mail")
        with self.assertRaisesRegex(Refused, "Available tools: read"):
            self.logic.resolve_name("files.write", TOOLS)
        [mail, _] = self.logic.fit_names(TOOLS, "cursor")
        self.assertEqual((mail.name, mail.tool.tool), ("mail__send_mail", "send_mail"))

    def test_filters_rules_and_searches_decide(self):
        self.assertEqual(self.logic.filter(["get_a", "set_a"], allow=["get_*"]), ["get_a"])
        self.assertEqual(self.logic.filter(["get_a", "set_a"], deny=["get_*"]), ["set_a"])
        policy = self.logic.default_settings(TOOLS).policy
        policy.read_only = True
        self.assertEqual(self.logic.decide(policy, ToolRef(server="mail", tool="send_mail")).verdict, "deny")
        self.assertEqual(self.logic.search("write an email", TOOLS)[0].tool.tool, "send_mail")
        rules = [Rule(name="none", tools=["mail.x"], effect="deny"), Rule(name="never", tools=["*"], condition="false", effect="ask")]
        notes = self.logic.check_rules(RuleSet(lists=[rules]), TOOLS)
        self.assertEqual([(note.rule, note.problem) for note in notes], [("none", Case("unmatched", "mail.x")), ("never", Case("constant", False))])

    def test_a_text_where_a_list_belongs_is_not_split_into_letters(self):
        names, instead = ["add", "echo"], "must be a list, not 'add'; write ['add']"
        for question, refused in [
            (lambda: self.logic.filter("add"), f"names {instead}"),
            (lambda: self.logic.filter(names, allow="add"), f"allow {instead}"),
            (lambda: self.logic.filter(names, deny="add"), f"deny {instead}"),
            (lambda: self.logic.filter(names, deny=None), "deny must be a list, not None"),
            (lambda: self.logic.filter(names, deny=[1]), "deny[0] must be a text, not 1"),
            (lambda: self.logic.mask("x", "add"), f"groups {instead}"),
            (lambda: self.logic.mask("x", patterns="add"), f"patterns {instead}"),
            (lambda: self.logic.mask("x", custom="add"), "custom must be a list, not 'add'"),
            (lambda: self.logic.mask("x", None), "groups must be a list, not None"),
            (lambda: self.logic.mask_json("{}", patterns="add"), f"patterns {instead}"),
            (lambda: self.logic.default_settings("add"), f"servers {instead}"),
            (lambda: Rule(name="x", tools="add", effect="deny"), f"Rule.tools {instead}"),
            (lambda: Rule(name="x", tools=["*"], effect=Case("label", "add")), f"Rule.effect 'label' {instead}"),
        ]:
            with self.subTest(refused):
                with self.assertRaises(TypeError) as raised:
                    question()
                self.assertEqual(str(raised.exception), refused)
        for some in [("echo",), {"echo"}, iter(["echo"])]:
            self.assertEqual(self.logic.filter(names, deny=some), ["add"])

    def test_calls_are_found_in_a_text(self):
        tool = Tool(name="get_weather", input_schema='{"type":"object","properties":{"city":{"type":"string"}}}')
        text = 'I ask: get_weather("Paris")'
        self.assertEqual(self.logic.read_calls(text, [tool]), [])
        [call] = self.logic.read_calls(text, [tool], loose=True)
        self.assertEqual((call.arguments, call.form), ('{"city":"Paris"}', "python"))

    def test_texts_are_cut_and_measured(self):
        self.assertTrue(self.logic.truncate("abcdef", 3, "test").startswith("abc\n"))
        self.assertEqual(self.logic.estimate_tokens("x" * 9), 3)

    def test_any_function_can_be_asked(self):
        self.assertEqual(self.logic.ask("backoff", "spread", 1000).max_ms, 1200)
        self.assertEqual(self.logic.ask("lifecycle", "initial", True), self.logic.ask("lifecycle", "initial", True))
        context = {"phase": "sent", "attempt": 1, "read_only": False, "idempotent": False, "retry": "safe"}
        self.assertEqual(self.logic.ask("recovery", "classify", "closed", context).action, "outcome-unknown")
        with self.assertRaisesRegex(Refused, "there is no function backoff#spred"):
            self.logic.ask("backoff", "spred", 1000)
        with self.assertRaisesRegex(TypeError, "takes 1 arguments, not 0"):
            self.logic.ask("backoff", "spread")
        with self.assertRaisesRegex(TypeError, "argument 1 must be a whole number"):
            self.logic.ask("backoff", "spread", "1000")

    def test_an_instance_has_so_much_memory_and_no_more(self):
        with self.assertRaises(ComponentCrashed):
            self.logic.truncate("x" * (257 << 20), 10, "it is long")
        self.assertEqual(self.logic.estimate_tokens("four"), 1)  # by a new instance
