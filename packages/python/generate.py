"""Writes `toolgate/types.py`, the Python classes of the types in `wit/`: `python3 packages/python/generate.py`.

With `--check`, compares the file with what would be written, and fails if it differs.
"""

import keyword
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
WIT = HERE.parents[1] / "wit"
OUT = HERE / "toolgate" / "types.py"
INTERFACES = "types arguments backoff naming catalog content filtering lifecycle masking reading recovery rules search execution"
NATIVE = {"string": "str", "bool": "bool", "f32": "float", "f64": "float", "char": "str"}
RANGES = {f"u{bits}": f"range(1 << {bits})" for bits in (8, 16, 32, 64)}
RANGES |= {f"s{bits}": f"range(-1 << {bits - 1}, 1 << {bits - 1})" for bits in (8, 16, 32, 64)}
NATIVE |= {name: name.upper() for name in RANGES}
REQUIRED = {("rule", "tools")}  # a rule without tools would apply to nothing and look as if it applied to everything
RENAMED = {
    ("naming", "name-error"): "ToolNameError",  # Python has a `NameError`
    ("execution", "failed"): "FailedEvent",  # `toolgate.Failed` is an exception
    ("recovery", "context"): "RecoveryContext",
    ("recovery", "decision"): "RecoveryDecision",
}
MIXINS = {("execution", "settings"): "SettingsFile"}
HEAD = '''"""The types of the contract, written by `generate.py` from the WIT: do not edit.

A record is a class with keyword arguments. An enum is a string. A variant is a string if its case has no value, and
`Case(name, value)` if it has one. JSON is a text. A field that the WIT makes optional is `None` if you leave it out, and
a list is empty.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Union

from toolgate.records import Case, Record, fresh
from toolgate.settings_file import SettingsFile
'''


@dataclass
class Item:
    """A record, variant, enum, alias or resource of an interface; `parts` are (name, type, sentence)."""

    kind: str
    interface: str
    name: str
    doc: str
    parts: list = field(default_factory=list)


def main():
    text = Writer(*read()).text()
    if "--check" not in sys.argv[1:]:
        OUT.write_text(text, encoding="utf-8")
    elif OUT.read_text(encoding="utf-8") != text:
        sys.exit(f"{OUT.name} does not fit the WIT: run python3 packages/python/generate.py")


def read():
    """Returns the items of all interfaces, and their functions as (interface, name, parameters, result)."""
    items, functions = [], []
    for interface in INTERFACES.split():
        doc, item, signature = [], None, ""
        for line in (WIT / f"{interface}.wit").read_text(encoding="utf-8").splitlines():
            line = line.strip().replace("%", "")
            if line.startswith("///"):
                doc.append(line[3:].strip())
                continue
            if re.match(r"@|package |interface |use |$", line):
                doc = [] if line.startswith("interface") else doc
                continue
            signature, sentence, doc = f"{signature} {line}".strip(), " ".join(doc), []
            if opened := re.fullmatch(r"(record|variant|enum|resource) ([\w-]+) \{", signature):
                item = Item(opened[1], interface, opened[2], sentence)
                items.append(item)
            elif alias := re.fullmatch(r"type ([\w-]+) = (.+);", signature):
                items.append(Item("type", interface, alias[1], sentence, [("", alias[2], "")]))
            elif signature == "}":
                item = None
            elif called := re.fullmatch(r"(constructor|[\w-]+: func)\((.*?)\)(?: -> (.+))?;", signature):
                functions.append(function(interface, item, *called.groups()))
            elif item and (part := re.fullmatch(r"([\w-]+)(?:: (.+)|\((.+)\))?,", signature)):
                item.parts.append((part[1], part[2] or part[3], sentence))
            else:
                raise ValueError(f"{interface}.wit has a line that this program does not know: {signature}")
            signature = ""
    return items, functions


def function(interface, resource, called, parameters, result):
    """Names a function as the component exports it; a method has its resource as the first parameter."""
    given = [part.partition(": ")[2] for part in split(parameters)]
    if resource is None:
        return interface, called.removesuffix(": func"), given, result
    if called == "constructor":
        return interface, f"[constructor]{resource.name}", given, result or resource.name
    return interface, f"[method]{resource.name}.{called.removesuffix(': func')}", [resource.name, *given], result


def split(text):
    """Splits at commas that are not within angle brackets."""
    return [part.strip() for part in re.split(r",(?![^<]*>)", text) if part.strip()]


class Writer:
    """Writes the items, each under its own name; those of `lifecycle` get that word in front."""

    def __init__(self, items, functions):
        self.items, self.functions = items, functions
        self.names = {(item.interface, item.name): python_name(item) for item in items}
        written = [name for name in self.names.values() if name != "Any"]
        assert len(set(written)) == len(written), f"two items have the same name: {sorted(written)}"

    def text(self):
        """Returns the text of the module."""
        blocks = [self.alias(item) for item in self.items if item.kind in ("type", "enum")]
        blocks += [self.record(item) for item in self.items if item.kind == "record"]
        blocks += [self.variant(item) for item in self.items if item.kind == "variant"]
        rows = [f"    {row},\n" for row in map(self.row, self.functions)]
        table = "# For each function of the component: the types of its parameters, of its answer, and of its error.\n"
        table += "FUNCTIONS: dict[str, tuple[list[Any], Any, Any]] = {\n" + "".join(rows) + "}\n"
        used = [name for name in RANGES if any(re.search(rf"\b{name.upper()}\b", block) for block in [*blocks, table])]
        blocks.insert(0, "".join(f"{name.upper()} = Annotated[int, {RANGES[name]}]\n" for name in used))
        return HEAD + "".join(f"\n{block}" for block in [*blocks, table])

    def alias(self, item):
        name = self.names[item.interface, item.name]
        if item.kind == "type":
            return f"{name} = {self.hint(item.interface, item.parts[0][1])}\n{quoted(item.doc)}"
        cases = "".join(f'    "{case}",\n' for case, _, _ in item.parts)
        return f"{name} = Literal[\n{cases}]\n{quoted(item.doc, item.parts)}"

    def record(self, item):
        lines = [f"\nclass {self.names[item.interface, item.name]}({MIXINS.get((item.interface, item.name), 'Record')}):\n"]
        lines.append(quoted(item.doc, indent="    ") + "\n")
        for name, kind, doc in item.parts:
            default = self.default(item, name, kind)
            name = name.replace("-", "_") + "_" * keyword.iskeyword(name)
            lines.append(f"    {name}: {self.hint(item.interface, kind)}{default and f' = {default}'}\n")
            lines.append(quoted(doc, indent="    "))
        return "".join(lines)

    def variant(self, item):
        cases = []
        for name, kind, _ in item.parts:
            word = f'Literal["{name}"]'
            cases.append(f"    {f'Case[{word}, {self.hint(item.interface, kind)}]' if kind else word},\n")
        name = self.names[item.interface, item.name]
        return f"{name} = Union[\n{''.join(cases)}]\n{quoted(item.doc, item.parts)}"

    def row(self, called):
        interface, name, given, result = called
        error = None
        if result and (both := re.fullmatch(r"result<(.+)>", result)):
            result, error = split(both[1])
        hints = [self.hint(interface, kind) if kind else "None" for kind in (*given, result, error)]
        return f'"{interface}#{name}": ([{", ".join(hints[:-2])}], {hints[-2]}, {hints[-1]})'

    def hint(self, interface, kind):
        """Returns the Python type of a WIT type."""
        if kind in NATIVE:
            return NATIVE[kind]
        if inner := re.fullmatch(r"(list|option|tuple)<(.+)>", kind):
            hints = ", ".join(self.hint(interface, part) for part in split(inner[2]))
            return f"Union[{hints}, None]" if inner[1] == "option" else f"{inner[1]}[{hints}]"
        return self.names[self.item(interface, kind).interface, kind]

    def item(self, interface, name):
        """Finds an item in its own interface, or else in another one: those that are used by others have one name."""
        return next((item for item in self.items if (item.interface, item.name) == (interface, name)), None) or next(
            item for item in self.items if item.name == name
        )

    def default(self, item, name, kind):
        """Returns the expression of a field's default, or an empty text if the field must be given."""
        if kind.startswith("option<"):
            return "None"
        if kind.startswith("list<"):
            return "" if (item.name, name) in REQUIRED else "fresh(lambda: [])"
        if kind in NATIVE or "<" in kind:
            return ""
        other = self.item(item.interface, kind)
        if other.kind == "type":
            return self.default(other, name, other.parts[0][1])
        if other.kind == "record" and all(self.default(other, part, kind) for part, kind, _ in other.parts):
            return f"fresh(lambda: {self.names[other.interface, other.name]}())"
        return ""


def python_name(item):
    """Returns the name of an item in Python; a resource has none, since it is a handle of wasmtime."""
    if item.kind == "resource":
        return "Any"
    prefix = "Lifecycle" if item.interface == "lifecycle" else ""
    return RENAMED.get((item.interface, item.name)) or prefix + camel(item.name)


def camel(name):
    return "".join(word.capitalize() for word in name.split("-"))


def quoted(doc, cases=(), indent=""):
    """Returns a docstring that is wrapped, with one line for each case."""
    lines, line = [], f'{indent}"""'
    for word in doc.split():
        if len(f"{line} {word}") > 117:
            lines, line = [*lines, line], f"{indent}{word}"
        else:
            line += word if line.endswith('"""') else f" {word}"
    lines.append(line)
    if cases:
        lines += ["", *(f'- `"{name}"`: {sentence}' for name, _, sentence in cases)]
        return "\n".join(lines) + '\n"""\n'
    return "\n".join(lines) + '"""\n'


if __name__ == "__main__":
    main()
