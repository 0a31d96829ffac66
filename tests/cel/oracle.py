"""Evaluates CEL expressions with Google's implementation, as the oracle for the one of toolgate.

    oracle.py <cases.json    prints all rows anew, each with the value or the error that CEL gives it

To add a row, add its `group`, `expression` and `variables` to the file, and write what this prints back to it.

It needs Python 3.11 and `pip install cel-expr-python==0.1.3` (a binding of cel-cpp). Types are not checked before an
expression is evaluated, as in toolgate. A row with `unreadable` is not an expression; one with only `error` fails when it
is evaluated, or earlier. In a value a double is {"double": "1.5"}, a timestamp {"timestamp": "2026-03-01T12:34:56.7Z"}, a
duration {"duration": "1.5s"}, and a map that has other keys than texts {"map": [[key, value], …]}. Variables are JSON, but
for the timestamp `now`: numbers that are written as integers and fit in 64 bits are ints, all others doubles.
"""

import datetime
import json
import math
import os
import re
import sys

sys.dont_write_bytecode = True  # the source tree stays as it is

from cel_expr_python import cel
from cel_expr_python.ext import ext_strings

# The package releases `None` too often, once for each value that is null; these are there to be released.
SPARE = [None] * 1_000_000

ENV = cel.NewEnv(variables={"now": cel.Type.TIMESTAMP}, extensions=[ext_strings.ExtStrings()])


class Left(Exception):
    """A value that has no form in a row."""


def answer(expression, variables):
    """The keys that a row gets: its value, or its error."""
    data = {name: moment(value) if name == "now" else plain(value) for name, value in variables.items()}
    try:
        ENV.compile(expression, disable_check=True)
    except RuntimeError:
        return {"error": True, "unreadable": True}
    try:
        evaluated(expression, data)
    except RuntimeError:
        return {"error": True}
    return {"value": written(expression, data)}


def evaluated(expression, data):
    """The type and the value of an expression."""
    result = ENV.compile(expression, disable_check=True).eval(data=data)
    if str(result.type()) == "ERROR":
        raise RuntimeError(result.value())
    return str(result.type()), result.plain_value()


def moment(value):
    """The timestamp that a row writes for `now`."""
    return datetime.datetime.fromisoformat(value["timestamp"])


def plain(value):
    """JSON in which integers that do not fit in 64 bits are doubles."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    fits = not isinstance(value, int) or -(2**63) <= value < 2**63
    return value if fits else float(value)


def written(expression, data):
    """The value of an expression as a row writes it."""
    kind, value = evaluated(expression, data)
    if kind in ("TIMESTAMP", "DURATION"):
        # Python's types have no nanoseconds, the text has them.
        text = evaluated(f"string({expression}\n)", data)[1]
        return {kind.lower(): re.sub(r"\.?0*([Zs])$", r"\1", text) if "." in text else text}
    if kind.startswith("LIST"):
        return [written(f"({expression}\n)[{index}]", data) for index in range(len(value))]
    if kind.startswith("MAP"):
        if evaluated(f"size({expression}\n)", data)[1] != len(value):
            raise Left("Python has one key for 1 and true")
        items = [[key, written(f"({expression}\n)[{literal(key)}]", data)] for key in value]
        items.sort(key=lambda item: (str(type(item[0])), item[0]))
        texts = all(isinstance(key, str) for key in value)
        if texts and set(value) & {"double", "timestamp", "duration", "map"}:
            raise Left("this map would be read as another value")
        return dict(items) if texts else {"map": items}
    if kind == "DOUBLE":
        return {"double": "NaN" if math.isnan(value) else repr(value).replace("inf", "Infinity")}
    if kind in ("INT", "STRING", "BOOL", "NULL"):
        return value
    raise Left(f"there is no form for {kind}")


def literal(key):
    """The key of a map as an expression."""
    return json.dumps(key, ensure_ascii=False) if isinstance(key, (bool, str)) else str(key)


def main():
    """Answers all rows of standard input."""
    lines = []
    for row in json.load(sys.stdin):
        asked = {key: row[key] for key in ("group", "expression", "variables")}
        lines.append("  " + json.dumps(asked | answer(row["expression"], row["variables"]), ensure_ascii=False))
    print("[\n" + ",\n".join(lines) + "\n]")


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    os._exit(0)  # an orderly end would notice the releases and abort
