"""Counts what the product is made of: lines of code, and type names that mean more than one thing.

    python3 tests/figures/code.py [--names]     --names also lists the type names that repeat

Code is what is left of guest/src, host/src and host/build.rs without blank lines, comments and tests. A type name counts if
it is visible outside its file (`pub`, `pub(crate)`, `pub(super)`).
"""

import collections
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DEFINED = re.compile(r"\s*pub(?:\([^)]*\))?\s+(?:struct|enum|trait|type|union)\s+(\w+)")
# Each command has its own arguments.
MAY_REPEAT = {"Args"}


def sources():
    """The files of the product, without those that hold nothing but tests."""
    for folder in ("guest/src", "host/src"):
        for file in sorted((ROOT / folder).rglob("*.rs")):
            parts = file.relative_to(ROOT).parts
            if file.name != "tests.rs" and "tests" not in parts and "fixture.rs" != file.name:
                yield file
    yield ROOT / "host" / "build.rs"


def code(file):
    """The lines of code of a file; a module of tests is its last item."""
    text = file.read_text()
    text = re.split(r"^#\[cfg\(test\)\]\nmod \w+ \{$", text, flags=re.MULTILINE)[0]
    lines = (line.strip() for line in text.splitlines())
    return [line for line in lines if line and not line.startswith("//")]


def main():
    lines = collections.Counter()
    names = collections.defaultdict(list)
    for file in sources():
        found = code(file)
        lines[file.relative_to(ROOT).parts[0]] += len(found)
        for line in found:
            if defined := DEFINED.match(line):
                names[defined[1]].append(str(file.relative_to(ROOT)))
    repeated = {name: files for name, files in names.items() if len(files) > 1 and name not in MAY_REPEAT}
    print(f"lines of code: {sum(lines.values())} ({', '.join(f'{part} {count}' for part, count in lines.items())})")
    print(f"type names visible outside their file: {len(names)}, of which {len(repeated)} repeat")
    if "--names" in sys.argv:
        for name, files in sorted(repeated.items()):
            print(f"  {name}: {', '.join(files)}")


if __name__ == "__main__":
    main()
