"""Settings refuse what the WIT does not have, and are read from files by the command."""

import json
import os
import subprocess
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from subjects import TOOLGATE, logic

from toolgate import Case, Settings, SettingsError, UnknownField
from toolgate.types import Audience, CustomMask, Masks, ResultRule, Rule, ServerRules

CONFIG = """
version: 1
servers:
  demo:
    command: toolgate
    args: [demo-server]
    allow: ["a*", echo]
    deny: [fail]
    ask: [add]
    tools: {add: {annotations: {read_only: true}}}
    masking: {custom: [{pattern: run, replacement: "***"}]}
masking: {groups: [secrets]}
read_only: false
destructive: ask
rules:
  - {name: night, tools: demo.add, when: "args.a > 5", then: deny, because: it is late}
"""
PRINCIPALS = """
gateway:
  tokens: [{principal: ann, token: "0123456789abcdef", servers: [demo]}]
"""


class SettingsOfAGate(unittest.TestCase):
    def setUp(self):
        self.settings = logic().default_settings(["demo", "shop"])

    def test_a_field_or_a_value_that_there_is_not_is_refused(self):
        policy = self.settings.policy
        for record, field, value, refused in [
            (policy, "readonly", True, "Policy has no field 'readonly'; did you mean 'read_only'?"),
            (policy.servers[1], "aks", ["charge"], "did you mean 'ask'?"),
            (policy.servers[1], "denny", ["charge"], "ServerRules has no field 'denny'"),
            (policy, "read_only", "yes", "Policy.read_only must be True or False, not 'yes'"),
            (policy, "read_only", 1, "Policy.read_only must be True or False, not 1"),
            (policy, "destructive", "denny", "must be one of allow, ask, deny, not 'denny'; did you mean 'deny'?"),
            (policy.servers[1], "ask", "charge", "ServerRules.ask must be a list, not 'charge'; write ['charge']"),
            (policy.servers[1], "ask", [1], "ServerRules.ask[0] must be a text, not 1"),
            (policy, "servers", [{"id": "shop", "aks": ["charge"]}], "ServerRules has no field 'aks'"),
            (policy, "servers", [{}], "ServerRules needs a value for 'id'"),
            (policy, "servers", ["shop"], "Policy.servers[0] must be a record ServerRules"),
            (self.settings, "masks", {"groups": ["all"], "patern": []}, "did you mean 'patterns'?"),
            (self.settings, "style", "dott", "did you mean 'dot'?"),
            (self.settings, "style", "fitted", "must be Case('fitted', …) with a value"),
            (self.settings, "style", Case("dot", 1), "must be the text 'dot'"),
            (self.settings, "max_result_bytes", -1, "must be from 0 to 18446744073709551615, not -1"),
            (self.settings, "max_result_bytes", True, "must be a whole number, not True"),
        ]:
            with self.subTest(field=field, value=value), self.assertRaises((TypeError, ValueError)) as raised:
                setattr(record, field, value)
            self.assertIn(refused, str(raised.exception))
        with self.assertRaises(UnknownField):
            policy.readonly

    def test_records_say_what_they_need_and_fill_in_the_rest(self):
        with self.assertRaisesRegex(TypeError, "Rule needs a value for 'tools'"):
            Rule(name="x", effect="deny")
        with self.assertRaisesRegex(UnknownField, "Masks has no field 'group'; did you mean 'groups'"):
            Masks(group=["all"])
        self.assertEqual(repr(ServerRules(id="a").rules), "Rules(allow=None, deny=[])")
        self.assertIsNot(Masks().groups, Masks().groups)

    def test_a_copy_is_equal_and_independent(self):
        copy = self.settings.copy()
        self.assertEqual(copy, self.settings)
        copy.policy.servers[0].ask.append("x")
        self.assertNotEqual(copy, self.settings)

    def test_settings_of_a_record_are_read(self):
        """A record has the settings in the form that `toolgate settings` prints."""
        with tempfile.TemporaryDirectory() as folder:
            config = Path(folder, "toolgate.yaml")
            config.write_text(CONFIG.replace("command: toolgate", f"command: {TOOLGATE}"))
            command = [TOOLGATE, "--config", config, "call", "--record", folder, "demo__echo", "text: x"]
            subprocess.run(command, check=True, capture_output=True, timeout=60)
            [recorded] = Path(folder, "parts").glob("settings-*.json")
            self.check(Settings.from_json(recorded.read_text()))

    def test_settings_of_a_file_are_read_by_the_command(self):
        probe = subprocess.run([TOOLGATE, "settings", "--help"], capture_output=True, timeout=60, check=False)
        if probe.returncode != 0:
            self.skipTest(f"{TOOLGATE} has no command `settings`")
        with tempfile.TemporaryDirectory() as folder:
            config = Path(folder, "toolgate.yaml")
            config.write_text(CONFIG)
            self.check(Settings.from_file(config, command=TOOLGATE))
            config.write_text(CONFIG + PRINCIPALS)
            self.check(Settings.from_file(config, command=TOOLGATE, principal="ann"), selection=["demo"])
            config.write_text("version: 1\nservers: {demo: {comand: x}}\n")
            with self.assertRaisesRegex(SettingsError, "comand"):
                Settings.from_file(config, command=TOOLGATE)

    def check(self, settings, selection=None):
        selected = settings.policy.selection
        self.assertEqual(selected and [server.id for server in selected], selection)
        [server] = settings.policy.servers
        self.assertEqual((server.id, server.rules.allow, server.rules.deny), ("demo", ["a*", "echo"], ["fail"]))
        self.assertEqual((server.ask, server.tools[0].annotations.read_only), (["add"], True))
        self.assertEqual((settings.masks.groups, settings.policy.destructive), (["secrets"], "ask"))
        self.assertEqual(settings.server_settings[0].masks.custom, [CustomMask(pattern="run", replacement="***")])
        [[rule]] = settings.rules.lists
        self.assertEqual((rule.condition, rule.effect, rule.because), ("args.a > 5", "deny", "it is late"))

    def test_every_case_of_the_json_is_read(self):
        told = json.loads(plain_json(self.settings))
        told["style"] = {"fitted": {"target": "openai", "prefix": "x_"}}
        told["policy"]["selection"] = [{"name": "demo", "tools": []}]
        told["rules"] = {"lists": [[{"name": "r", "tools": ["*"], "then": {"label": ["seen"]}}]], "results": [{"tools": "*", "trusted": True}]}
        settings = Settings.from_json(json.dumps(told))
        self.assertEqual(settings.style, Case("fitted", Audience(target="openai", prefix="x_")))
        self.assertEqual(settings.policy.selection[0].id, "demo")
        self.assertEqual(settings.rules.lists[0][0].effect, Case("label", ["seen"]))
        self.assertEqual(settings.rules.results, [ResultRule(tools="*", trusted=True)])

    def test_a_command_that_is_missing_or_too_new_is_named(self):
        with self.assertRaisesRegex(SettingsError, "cannot run /no/such/toolgate"):
            Settings.from_file("toolgate.yaml", command="/no/such/toolgate")
        with tempfile.TemporaryDirectory() as folder:
            other = Path(folder, "toolgate")
            other.write_text("#!/bin/sh\necho '{\"polcy\": {}}'\n")
            other.chmod(0o755)
            with self.assertRaisesRegex(SettingsError, "of another version than this library: .*did you mean 'policy'"):
                Settings.from_file("toolgate.yaml", command=other)
            other.unlink()
            nowhere = mock.patch("toolgate.settings_file.sysconfig.get_path", return_value=folder)
            with nowhere, mock.patch.dict(os.environ, PATH=folder), self.assertRaisesRegex(SettingsError, "there is no program `toolgate` in .* pass command="):
                Settings.from_file("toolgate.yaml")


def plain_json(settings):
    """Writes settings as `toolgate settings` does, as far as names differ."""
    told = json.loads(json.dumps(settings, default=vars))
    told["masking"] = told.pop("masks")
    for server in told["policy"]["servers"]:
        server |= server.pop("rules")
    return json.dumps(told)
