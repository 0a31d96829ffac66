"""The questions that one asks most, each as a method; none of them acts."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from toolgate.component import Component, Instance
from toolgate.errors import ComponentCrashed
from toolgate.records import as_list
from toolgate.types import (
    Annotations,
    CustomMask,
    Decision,
    ExposedTool,
    FittedTool,
    KnownTool,
    Masks,
    Parsed,
    Policy,
    ReadCall,
    Route,
    RuleNote,
    RuleSet,
    Rules,
    SearchHit,
    Settings,
    Target,
    Tool,
    ToolRef,
)

Tools = Mapping[str, Sequence[Tool]]  # the tools of each server, by its id
Schema = Mapping[str, Any] | str | None


class Logic:
    """The component of the package, or of a file, and questions to it. Threads may share one."""

    def __init__(self, file: str | os.PathLike[str] | None = None) -> None:
        """Loads the component; `toolgate component --out FILE` writes one to a file."""
        self.component = Component(file)
        self.lock = threading.Lock()
        self.instance: Instance | None = None

    def ask(self, interface: str, function: str, *given: Any) -> Any:
        """Asks any function of the WIT that needs no resource: `ask("backoff", "spread", 1000)`.

        Raises `Refused` if the component answers with an error, and `ComponentCrashed` if it cannot answer.
        """
        return self.question(lambda instance: instance.ask(interface, function, *given))

    def parse_arguments(self, text: str, schema: Schema = None) -> Parsed:
        """Reads a model's free text as the arguments of a tool; with a schema, as that asks for."""
        parsed: Parsed = self.ask("arguments", "parse", text, schema_text(schema))
        return parsed

    def read_calls(self, text: str, tools: Iterable[Tool | ExposedTool] = (), loose: bool = False) -> list[ReadCall]:
        """Finds the calls that a model wrote in a text; the tools' schemas name arguments and decide types.

        Only calls that stand for themselves are found; with `loose`, also those that the text mentions or quotes.
        """
        known = [KnownTool(name=tool.name, input_schema=tool.input_schema) for tool in tools]
        calls: list[ReadCall] = self.ask("reading", "read-calls", text, known, loose)
        return calls

    def mask(
        self, text: str, groups: Sequence[str] = (), patterns: Sequence[str] = (), custom: Sequence[CustomMask] = ()
    ) -> str:
        """Replaces secrets in a text: those of the groups, patterns and custom masks, or of all groups if none is given."""
        return self.masked("mask", text, groups, patterns, custom)

    def mask_json(
        self, text: str, groups: Sequence[str] = (), patterns: Sequence[str] = (), custom: Sequence[CustomMask] = ()
    ) -> str:
        """Replaces secrets in JSON, as `mask` does; the result is JSON again."""
        return self.masked("mask-json", text, groups, patterns, custom)

    def split_name(self, name: str) -> ToolRef:
        """Splits `server.tool`, `server__tool` or `mcp__server__tool` without knowing the servers."""
        tool: ToolRef = self.ask("naming", "split", name)
        return tool

    def resolve_name(self, name: str, tools: Tools, bare_names: bool = False) -> Route:
        """Finds the one tool that a name means; with `bare_names`, a tool's own name is enough if one server has it."""
        route: Route = self.about(
            ("catalog", "catalog"), (offered(tools), bare_names), lambda ask: ask("resolve", name)
        )
        return route

    def fit_names(self, tools: Tools, target: Target, prefix: str = "") -> list[FittedTool]:
        """Gives each tool a name and a schema that a provider accepts, if its client puts the prefix before each name."""
        candidates = [
            {"tool": {"server": server, "tool": tool.name}, "schema": tool.input_schema}
            for server, listed in tools.items()
            for tool in listed
        ]
        fitted: list[FittedTool] = self.ask("naming", "fit", candidates, {"target": target, "prefix": prefix})
        return fitted

    def filter(self, names: Sequence[str], allow: Sequence[str] | None = None, deny: Sequence[str] = ()) -> list[str]:
        """Keeps the names that the lists of names and globs allow, in their order; without `allow`, all are allowed."""
        allowed = None if allow is None else as_list(str, allow, "allow")
        rules = Rules(allow=allowed, deny=as_list(str, deny, "deny"))
        kept: list[str] = self.ask("filtering", "filter", rules, as_list(str, names, "names"))
        return kept

    def decide(self, policy: Policy, tool: ToolRef, annotations: Annotations | None = None) -> Decision:
        """Decides whether a tool may be used, given what its server says about it, and tells by which rules."""
        decision: Decision = self.ask("filtering", "decide", policy, tool, annotations or Annotations())
        return decision

    def search(self, query: str, tools: Tools, limit: int = 10) -> list[SearchHit]:
        """Finds the tools that a query means, the best first."""
        hits: list[list[SearchHit]] = self.ask("search", "find", offered(tools), [query], limit)
        return hits[0]

    def check_rules(self, rules: RuleSet, tools: Tools) -> list[RuleNote]:
        """Finds probable mistakes in rules on arguments, given the tools of each server."""
        settings = self.default_settings(tools)
        settings.rules = rules

        def check(ask: Any) -> Any:
            for server, listed in tools.items():
                ask("offer", server, list(listed))
            return ask("check-rules")

        notes: list[RuleNote] = self.about(("execution", "gate"), (settings,), check)
        return notes

    def truncate(self, text: str, max_bytes: int, why: str) -> str:
        """Cuts a text at a line end and appends a note that says why; zero bytes mean no limit."""
        cut: str = self.ask("content", "truncate", text, max_bytes, why)
        return cut

    def estimate_tokens(self, text: str) -> int:
        """Estimates the number of tokens in a text."""
        tokens: int = self.ask("content", "estimate-tokens", text)
        return tokens

    def default_settings(self, servers: Iterable[str]) -> Settings:
        """Returns the default settings of a gate for these servers."""
        settings: Settings = self.ask("execution", "default-settings", as_list(str, servers, "servers"))
        return settings

    def masked(self, method: str, text: str, groups: Sequence[str], patterns: Sequence[str], custom: Any) -> str:
        masks = Masks(
            groups=as_list(str, groups, "groups"),
            patterns=as_list(str, patterns, "patterns"),
            custom=as_list(CustomMask, custom, "custom"),
        )
        if masks == Masks():
            masks.groups = ["all"]
        done: str = self.about(("masking", "masker"), (masks,), lambda ask: ask(method, text))
        return done

    def about(self, resource: tuple[str, str], given: tuple[Any, ...], use: Any) -> Any:
        """Makes a resource, uses its methods, and frees it."""
        interface, name = resource

        def question(instance: Instance) -> Any:
            made = instance.ask(interface, f"[constructor]{name}", *given)
            answer = use(lambda method, *more: instance.ask(interface, f"[method]{name}.{method}", made, *more))
            instance.drop(made)
            return answer

        return self.question(question)

    def question(self, ask: Any) -> Any:
        """Asks the instance, one question at a time; one that crashes is replaced for the next question."""
        with self.lock:
            if self.instance is None:
                self.instance = self.component.instance()
            try:
                return ask(self.instance)
            except ComponentCrashed:
                self.instance = None
                raise


def offered(tools: Tools) -> list[dict[str, Any]]:
    return [{"server": server, "tools": list(listed)} for server, listed in tools.items()]


def schema_text(schema: Schema) -> str | None:
    return schema if schema is None or isinstance(schema, str) else json.dumps(schema)
