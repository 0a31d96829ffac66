"""Makes the reference pages of the book from what the program says of itself.

    python3 docs/reference.py TOOLGATE             writes docs/src/reference/*.md
    python3 docs/reference.py --check TOOLGATE     says which of them are not what the program says
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

PAGES = Path(__file__).resolve().parent / "src" / "reference"


def run(toolgate, *arguments):
    """What a command prints, with nothing of this machine in it."""
    environment = {"PATH": os.environ["PATH"], "HOME": "/home/me"}
    return subprocess.run([toolgate, *arguments], capture_output=True, check=True, text=True, env=environment).stdout


def commands(toolgate):
    """Each command with its help."""
    overview = run(toolgate, "--help")
    names = re.findall(r"^  ([a-z][a-z-]*) ", overview.split("Commands:")[1].split("\n\n")[0], re.MULTILINE)
    parts = ["# Commands\n", "```text\n" + overview.rstrip() + "\n```\n"]
    for name in names:
        if name != "help":
            parts.append(f"## {name}\n\n```text\n{run(toolgate, name, '--help').rstrip()}\n```\n")
    return "\n".join(parts)


def type_of(schema):
    """The type of a value, in few words."""
    if "enum" in schema:
        return " \\| ".join(f"`{json.dumps(value)}`" for value in schema["enum"])
    if "anyOf" in schema or "oneOf" in schema:
        return " or ".join(dict.fromkeys(type_of(part) for part in schema.get("anyOf", schema.get("oneOf"))))
    kind = schema.get("type", "any")
    if kind == "array":
        return f"list of {type_of(schema.get('items', {}))}"
    return kind if isinstance(kind, str) else " or ".join(kind)


def tables(title, schema, level, parts):
    """A table of the keys of an object, and below it those of the objects in it."""
    properties = schema.get("properties", {})
    if not properties:
        return
    parts.append(f"{'#' * min(level, 4)} {title}\n")
    rows = ["| key | value | meaning |", "|---|---|---|"]
    nested = []
    for name, value in properties.items():
        meaning = " ".join(value.get("description", "").split()).replace("|", "\\|")
        rows.append(f"| `{name}` | {type_of(value)} | {meaning} |")
        inner = [(name, value), (f"{name}.*", value.get("additionalProperties")), (f"{name}[]", value.get("items"))]
        for part in value.get("anyOf", value.get("oneOf", [])):
            inner += [(name, part), (f"{name}[]", part.get("items"))]
        nested += [(path, part) for path, part in inner if isinstance(part, dict) and part.get("properties")]
    parts.append("\n".join(rows) + "\n")
    for path, part in nested:
        tables(path if title == "toolgate.yaml" else f"{title}.{path}", part, level + 1, parts)


def keys(toolgate):
    """The keys of the configuration, from its JSON Schema."""
    parts = [
        "# Configuration keys\n",
        "`toolgate schema` prints this as a JSON Schema; "
        "`toolgate.example.yaml` in the repository has every key with its default and an example.\n",
    ]
    tables("toolgate.yaml", json.loads(run(toolgate, "schema")), 2, parts)
    return "\n".join(parts)


def wit(toolgate):
    """The contract."""
    return f"# WIT\n\n`toolgate component --wit` prints this.\n\n```wit\n{run(toolgate, 'component', '--wit').rstrip()}\n```\n"


def main():
    check = "--check" in sys.argv
    toolgate = str(Path([argument for argument in sys.argv[1:] if not argument.startswith("-")][0]).resolve())
    stale = []
    for name, make in {"commands": commands, "keys": keys, "wit": wit}.items():
        page, text = PAGES / f"{name}.md", make(toolgate)
        if page.read_text() != text:
            stale.append(page.name)
            if not check:
                page.write_text(text)
    if check and stale:
        sys.exit(f"docs/src/reference: {', '.join(stale)} must be made again: python3 docs/reference.py {toolgate}")


if __name__ == "__main__":
    main()
