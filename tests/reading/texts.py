"""Compares the calls that toolgate reads in texts with those that Python's `ast` and `json` read.

    texts.py DATA COMMAND…    for example: texts.py bfcl_eval/data toolgate eval

DATA is the folder `bfcl_eval/data` of the package `bfcl-eval` (`pip download --no-deps bfcl-eval`, a zip file). It has
questions, tools and the right calls; nothing of it is stored here. From the calls this makes texts in every form that models
write, sends each as a line to COMMAND, and prints for each form how many texts give the same calls:

    {"op":"read-calls","text":"…","tools":[{"name":"f","input_schema":{…}}],"loose":false}
    {"ok":[{"name":"f","arguments":"{…}","form":"python","standing":"own-line","start":0,"end":6}]} or {"error":"…"}

Forms in which a call is beside other words are read with `loose`, all others without it.

It fails if a form agrees in fewer than 98 % of its texts.
"""

import ast
import glob
import json
import os
import subprocess
import sys
import threading

sys.dont_write_bytecode = True  # the source tree stays as it is

LEAST = 0.98
# Other languages, answers that are no calls, and the same conversations in other settings.
LEFT_OUT = ["java", "web_search", "memory", "miss_func", "miss_param", "long_context"]


def samples(data):
    """Each question with its tools and one right answer: [(name, arguments)…]."""
    for path in sorted(glob.glob(os.path.join(data, "possible_answer", "*.json"))):
        questions = {}
        beside = os.path.join(data, os.path.basename(path))
        if not os.path.exists(beside) or any(word in path for word in LEFT_OUT):
            continue
        for line in open(beside):
            row = json.loads(line)
            questions[row["id"]] = row
        for line in open(path):
            row = json.loads(line)
            question = questions.get(row["id"], {})
            if "function" in question:
                tools = [(tool["name"], schema(tool["parameters"])) for tool in question["function"]]
                calls = [(name, chosen(arguments)) for call in row["ground_truth"] for name, arguments in call.items()]
                yield tools, calls
            else:
                yield from turns(data, question, row["ground_truth"])


def turns(data, question, answers):
    """The turns of a conversation, whose answers are Python calls as texts."""
    folder = os.path.join(data, "multi_turn_func_doc")
    files = {"GorillaFileSystem": "gorilla_file_system", "MathAPI": "math_api", "MessageAPI": "message_api"}
    files |= {"TwitterAPI": "posting_api", "TicketAPI": "ticket_api", "TradingBot": "trading_bot"}
    files |= {"TravelAPI": "travel_booking", "VehicleControlAPI": "vehicle_control"}
    tools = []
    for group in question.get("involved_classes", []):
        for line in open(os.path.join(folder, files[group] + ".json")):
            tool = json.loads(line)
            tools.append((tool["name"], schema(tool["parameters"])))
    for turn in answers:
        calls = [parsed for text in turn for parsed in python_calls(text, dict(tools)) or []]
        if calls and len(calls) == len(turn):
            yield tools, calls


def chosen(arguments):
    """The first accepted value of each argument; an empty text means that it can be left out."""
    return {name: nested(values[0]) for name, values in arguments.items() if values and values[0] != ""}


def nested(value):
    """A value without the lists of alternatives that dictionaries have inside."""
    if isinstance(value, dict):
        return {key: nested(inner[0]) for key, inner in value.items() if isinstance(inner, list) and inner}
    if isinstance(value, list):
        return [nested(item) for item in value]
    return value


def schema(parameters):
    """The schema with the names of types that JSON Schema has."""
    names = {"dict": "object", "float": "number", "tuple": "array", "any": None}
    if isinstance(parameters, dict):
        out = {}
        for key, value in parameters.items():
            if key == "type" and isinstance(value, str):
                value = names.get(value, value)
                if value is None:
                    continue
            out[key] = schema(value)
        return out
    return [schema(item) for item in parameters] if isinstance(parameters, list) else parameters


def python_calls(text, tools):
    """The calls that `ast` reads in a text, or `None`."""
    try:
        tree = ast.parse(text.strip())
    except SyntaxError:
        return None
    calls = []
    for statement in tree.body:
        value = getattr(statement, "value", None)
        nodes = value.elts if isinstance(value, (ast.List, ast.Tuple)) else [value]
        for node in nodes:
            if not isinstance(node, ast.Call):
                return None
            order = list(tools.get(ast.unparse(node.func), {}).get("properties", {}))
            try:
                arguments = {order[n]: ast.literal_eval(each) for n, each in enumerate(node.args)}
                arguments |= {each.arg: ast.literal_eval(each.value) for each in node.keywords}
            except (ValueError, IndexError):
                return None
            calls.append((ast.unparse(node.func), arguments))
    return calls


def python(name, arguments, say=repr, joint=", ", equals="="):
    return f"{name}({joint.join(f'{key}{equals}{say(value)}' for key, value in arguments.items())})"


def double(value):
    """A literal as models write it: with double quotes."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, list):
        return "[" + ", ".join(map(double, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{double(key)}: {double(inner)}" for key, inner in value.items()) + "}"
    return repr(value)


def plain(value):
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def each(make, joint="\n"):
    return lambda calls, tools: joint.join(make(name, arguments) for name, arguments in calls)


def object_of(name_key="name", arguments_key="arguments", **more):
    return lambda name, arguments: {**more, name_key: name, arguments_key: arguments}


def dumped(make, **options):
    return lambda name, arguments: json.dumps(make(name, arguments), ensure_ascii=False, **options)


def listed(make, **options):
    return lambda calls, tools: json.dumps([make(*call) for call in calls], ensure_ascii=False, **options)


def positions(calls, tools):
    """Calls whose first arguments have no names, as far as the schema has the same order."""
    out = []
    for name, arguments in calls:
        order = list(dict(tools)[name].get("properties", {})) if name in dict(tools) else []
        words, rest = [], dict(arguments)
        for key in order:
            if key not in rest:
                break
            words.append(repr(rest.pop(key)))
        words += [f"{key}={value!r}" for key, value in rest.items()]
        out.append(f"{name}({', '.join(words)})")
    return "[" + ", ".join(out) + "]"


def openai(name, arguments):
    return {"id": "call_1", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}


def anthropic(name, arguments):
    return {"type": "tool_use", "id": "toolu_1", "name": name, "input": arguments}


def parameters(arguments, open_, close):
    return "".join(f"{open_.format(key)}{plain(value)}{close}\n" for key, value in arguments.items())


def react(name, arguments):
    return f"Thought: I need a tool.\nAction: {name}\nAction Input: {json.dumps(arguments)}\nObservation: done"


def before_and_after(make, before, after):
    return lambda calls, tools: before + make(calls, tools) + after


def inline(name, arguments):
    return f"I will call {python(name, arguments)} now."


LIST = lambda calls, tools: "[" + ", ".join(python(*call) for call in calls) + "]"
DOUBLE = lambda calls, tools: "[" + ", ".join(python(*call, say=double) for call in calls) + "]"
CALL = dumped(object_of())
DASH = "<｜tool▁call▁begin｜>"

# The forms: a function that makes the text, whether the tools are told, and whether each text must be read.
FORMS = {
    "python list": LIST,
    "python list, double quotes": DOUBLE,
    "python list, lines": lambda calls, tools: "[\n    " + ",\n    ".join(python(*call) for call in calls) + ",\n]",
    "python list, positions": positions,
    "python list, no bracket": lambda calls, tools: LIST(calls, tools)[:-1],
    "python lines": each(python),
    "python lines, arguments on lines": each(lambda name, a: python(name, a, joint=",\n    ", equals=" = ")),
    "python, semicolons": each(python, "; "),
    "python, commas": each(python, ", "),
    "python, JSON words": each(lambda name, a: python(name, a, say=json.dumps)),
    "python, one object": each(lambda name, a: f"{name}({json.dumps(a)})"),
    "python, two stars": each(lambda name, a: f"{name}(**{a!r})"),
    "python, assigned": each(lambda name, a: f"result = {python(name, a)}"),
    "python, printed": each(lambda name, a: f"print({python(name, a)})"),
    "python, awaited": each(lambda name, a: f"await {python(name, a)}  # a call"),
    "python fence": before_and_after(LIST, "Here you are:\n\n```python\n", "\n```\nThis calls it."),
    "python fence, lines": before_and_after(each(python), "```\n", "\n```"),
    "python fence, tool_code": before_and_after(each(lambda n, a: f"print(default_api.{python(n, a)})"), "```tool_code\n", "\n```"),
    "python after prose": before_and_after(LIST, "To answer that, I call the tool (see below): ", "\nThat's all, isn't it?"),
    "python in a sentence": each(inline),
    "python, backticks": each(lambda name, a: f"`{python(name, a)}`"),
    "python, escaped names": each(lambda name, a: python(name.replace("_", "\\_"), a)),
    "python, functions.": each(lambda name, a: "functions." + python(name, a)),
    "python tag": before_and_after(LIST, "<|python_tag|>", "<|eom_id|>"),
    "python after thoughts": before_and_after(LIST, "<think>\nShould I call f(x=1)? It's {odd.\n</think>\n\n", ""),
    "python after an unopened thought": before_and_after(LIST, "I call get(x=1), don't I?\n</think>\n\n", ""),
    "python, tool_call tag": before_and_after(LIST, "<tool_call>\n", "\n</tool_call>"),
    "json objects": each(CALL),
    "json list": listed(object_of()),
    "json list, indented": listed(object_of("name", "parameters"), indent=2),
    "json, parameters": each(dumped(object_of("name", "parameters", type="function"))),
    "json, tool and args": each(dumped(object_of("tool", "args"))),
    "json, tool_name": each(dumped(object_of("tool_name", "parameters"))),
    "json, function": each(dumped(object_of("function", "arguments"))),
    "json, action": each(dumped(object_of("action", "action_input", thought="It is needed."))),
    "json, by key": each(lambda name, a: json.dumps({name: a})),
    "json, by key, list": lambda calls, tools: json.dumps([{name: a} for name, a in calls]),
    "json, function object": each(lambda name, a: json.dumps({"function": {"name": name, "arguments": a}})),
    "json, arguments as text": each(lambda name, a: json.dumps({"name": name, "arguments": json.dumps(a)})),
    "json, single quotes": each(lambda name, a: repr({"name": name, "arguments": a})),
    "json, trailing commas": each(lambda name, a: json.dumps({"name": name, "arguments": a}, indent=2).replace("\n  }", ",\n  },") if a else CALL(name, a)),
    "json, missing bracket": before_and_after(lambda calls, tools: CALL(*calls[-1])[:-1], "", ""),
    "json, extra brackets": each(lambda name, a: CALL(name, a) + "}}"),
    "json fence": before_and_after(listed(object_of()), "Sure!\n```json\n", "\n```\nDone (I hope)."),
    "json in prose": before_and_after(each(CALL, " and "), "I'd say: ", " - that's it."),
    "openai": lambda calls, tools: json.dumps({"role": "assistant", "content": "I call f(x=1).", "tool_calls": [openai(*call) for call in calls]}),
    "openai objects": each(lambda name, a: json.dumps(openai(name, a))),
    "anthropic": lambda calls, tools: json.dumps({"role": "assistant", "content": [{"type": "text", "text": "Let me see."}] + [anthropic(*call) for call in calls]}),
    "anthropic blocks": each(lambda name, a: json.dumps(anthropic(name, a))),
    "tool_call tag": each(lambda name, a: f"<tool_call>\n{CALL(name, a)}\n</tool_call>"),
    "tool_call tag, one": before_and_after(each(CALL), "I see.\n<tool_call>\n", "\n</tool_call>"),
    "tool_call tag, open": each(lambda name, a: f"<tool_call>\n{CALL(name, a)}\n"),
    "tool_call tag, single quotes": each(lambda name, a: f"<tool_call>\n{ {'name': name, 'arguments': a} }\n</tool_call>"),
    "tool_call tag, fence": each(lambda name, a: f"<tool_call>\n```json\n{CALL(name, a)}\n```\n</tool_call>"),
    "tool_call tag, keys": each(lambda name, a: f"<tool_call>{name}\n" + "".join(f"<arg_key>{k}</arg_key>\n<arg_value>{plain(v)}</arg_value>\n" for k, v in a.items()) + "</tool_call>"),
    "function tag": each(lambda name, a: f"<function={name}>{json.dumps(a)}</function>"),
    "function tag, parameters": each(lambda name, a: f"<tool_call>\n<function={name}>\n" + parameters(a, "<parameter={}>\n", "\n</parameter>") + "</function>\n</tool_call>"),
    "invoke": before_and_after(each(lambda name, a: f'<invoke name="{name}">\n' + parameters(a, '<parameter name="{}">', "</parameter>") + "</invoke>"), "<function_calls>\n", "\n</function_calls>"),
    "invoke, prefix": before_and_after(each(lambda name, a: f'<x:invoke name="{name}">\n' + parameters(a, '<x:parameter name="{}">', "</x:parameter>") + "</x:invoke>"), "<x:function_calls>\n", "\n</x:function_calls>"),
    "[TOOL_CALLS] list": before_and_after(listed(object_of()), "[TOOL_CALLS] ", ""),
    "[TOOL_CALLS] names": each(lambda name, a: f"[TOOL_CALLS]{name}[ARGS]{json.dumps(a)}", ""),
    "<|tool_call|>": before_and_after(listed(object_of()), "<|tool_call|>", "<|/tool_call|>"),
    "<|tool_call_begin|>": each(lambda name, a: f"<|tool_call_begin|>functions.{name}:0<|tool_call_argument_begin|>{json.dumps(a)}<|tool_call_end|>", ""),
    "tool▁call▁begin": each(lambda name, a: f"{DASH}function<｜tool▁sep｜>{name}\n```json\n{json.dumps(a)}\n```<｜tool▁call▁end｜>"),
    "react": each(react),
    "react, key-value": each(lambda name, a: f"Action: {name}\nAction Input: " + "\n".join(f"{k}: {plain(v)}" for k, v in a.items())),
}

# Forms that need the tools: their names, their properties or the types of their properties.
TOOLS = {"python list, positions", "python, one object", "python in a sentence", "json, by key", "json, by key, list"}
# Forms in which the calls stand beside other words.
LOOSE = {"python after prose", "python in a sentence", "json in prose"}
TOOLS |= {"tool_call tag, keys", "function tag, parameters", "invoke", "invoke, prefix", "react, key-value"}


def expected(form, text, calls, tools):
    """The calls that a text has, as Python reads them, or `None` if Python does not read them."""
    if form == "python in a sentence" and not all(arguments for _, arguments in calls):
        return None  # "call f() now" can be a word about f
    if form.startswith("python") and "one object" not in form and "escaped" not in form:
        again = python_calls("[" + ", ".join(python(*call) for call in calls) + "]", dict(tools))
        return again
    if form == "json, missing bracket":
        return calls[-1:]
    return json.loads(json.dumps(calls))


def same(found, calls):
    """Whether the calls that were read are the expected ones; a tuple is a list, and 5.0 is 5."""
    if "ok" not in found or len(found["ok"]) != len(calls):
        return False
    pairs = zip(found["ok"], calls)
    return all(read["name"] == name and same_value(json.loads(read["arguments"]), arguments) for read, (name, arguments) in pairs)


def same_value(read, written):
    if isinstance(written, (list, tuple)):
        return isinstance(read, list) and len(read) == len(written) and all(map(same_value, read, written))
    if isinstance(written, dict):
        return isinstance(read, dict) and read.keys() == {str(key) for key in written} and all(same_value(read[str(key)], value) for key, value in written.items())
    return type(read) is type(written) and read == written or isinstance(read, (int, float)) and isinstance(written, (int, float)) and read == written


def answers(command, requests):
    """Sends all lines to the command; returns its answers."""
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def write():
        with process.stdin as stdin:
            for request in requests:
                stdin.write(json.dumps(request, ensure_ascii=False).encode() + b"\n")

    writer = threading.Thread(target=write)
    writer.start()
    for line in process.stdout:
        yield json.loads(line)
    writer.join()
    if process.wait() != 0:
        sys.exit(f"{command[0]} failed")


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    data, command = sys.argv[1], sys.argv[2:]
    show = int(os.environ.get("SHOW", "0"))
    rows, requests = [], []
    for tools, calls in samples(data):
        for form, make in FORMS.items():
            for known in (True, False):
                if not known and form in TOOLS:
                    continue
                text = make(calls, tools)
                wanted = expected(form, text, calls, tools)
                if wanted is None:
                    continue
                request = {"op": "read-calls", "text": text, "loose": form in LOOSE}
                if known:
                    request["tools"] = [{"name": name, "input_schema": each} for name, each in tools]
                rows.append((form, known, text, wanted))
                requests.append(request)
    agreed, total, shown = {}, {}, {}
    for (form, known, text, wanted), found in zip(rows, answers(command, requests)):
        key = (form, known)
        total[key] = total.get(key, 0) + 1
        if same(found, wanted):
            agreed[key] = agreed.get(key, 0) + 1
        elif shown.setdefault(key, 0) < show:
            shown[key] += 1
            print(f"--- {form}, tools {'known' if known else 'unknown'}\n{text}\nexpected {wanted}\nread     {found}")
    failed = 0
    for form in FORMS:
        cells = []
        for known in (True, False):
            if (form, known) in total:
                rate = agreed.get((form, known), 0) / total[form, known]
                failed += rate < LEAST
                cells.append(f"{rate:8.2%} of {total[form, known]}")
            else:
                cells.append("-")
        print(f"{form:36} known {cells[0]:20} unknown {cells[1]}")
    print(f"{sum(agreed.values())} of {sum(total.values())} texts agree")
    print(f"{len(total) - failed} passed, {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
