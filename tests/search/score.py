"""Asks a program for the tools of public sets of queries, and reports how many of the right ones come first.

    score.py FOLDER TOOLGATE [--shuffles N]

FOLDER has `SET.tools.jsonl` and `SET.queries.jsonl` for each set. The recall at k of a query is the share of its tools
among the first k. Queries with `whole_task` are reported apart, and count in no mean. Each catalog is then shuffled: the
exit code is 1 if that changes any byte of an answer.
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True  # the source tree stays as it is

LIMIT = 10
# How many queries are asked in one line, and how many of them again for each shuffled catalog.
BATCH = 100
AGAIN = 50
# How long the program may take for one line, in seconds.
LINE_LIMIT = 120


def ask(program, lines):
    """Returns the answers to these lines, as written."""
    done = subprocess.run(
        # No configuration is read from the folder for temporary files.
        [program, "eval"],
        input="".join(line + "\n" for line in lines).encode(),
        stdout=subprocess.PIPE,
        cwd=tempfile.gettempdir(),
        timeout=LINE_LIMIT * len(lines),
        check=True,
    )
    answers = done.stdout.decode().splitlines()
    if len(answers) != len(lines):
        sys.exit(f"{program}: {len(answers)} answers to {len(lines)} lines")
    return answers


def line_of(tools, queries):
    """Returns the line that asks for the tools of some queries."""
    return json.dumps({"op": "search", "tools": tools, "queries": queries, "limit": LIMIT}, ensure_ascii=False)


def hits_of(answer):
    """Returns the hits of each query in a line."""
    answer = json.loads(answer)
    if "ok" not in answer:
        sys.exit(f"no hits, but {json.dumps(answer)[:500]}")
    return answer["ok"]


def rows(file):
    with file.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines if line.strip()]


def recall(hits, wanted, most):
    """Returns the share of the wanted tools among the first hits."""
    first = {hit["tool"] for hit in hits[:most]}
    return sum(name in first for name in wanted) / len(wanted)


def mean(numbers):
    return sum(numbers) / len(numbers) if numbers else 0.0


def score(program, tools, queries):
    """Returns the mean recall at 1 and at 5."""
    batches = [queries[at:at + BATCH] for at in range(0, len(queries), BATCH)]
    answers = ask(program, [line_of(tools, [row["query"] for row in batch]) for batch in batches]) if batches else []
    hits = [found for answer in answers for found in hits_of(answer)]
    if len(hits) != len(queries):
        sys.exit(f"{program}: hits for {len(hits)} of {len(queries)} queries")
    return [mean([recall(found, row["tools"], most) for found, row in zip(hits, queries)]) for most in (1, 5)]


def changed(program, tools, queries, shuffles):
    """Returns how many of some shuffled catalogs change a byte of the answer."""
    some = [row["query"] for row in queries[:AGAIN]]
    lines = [line_of(tools, some)]
    for seed in range(shuffles):
        shuffled = list(tools)
        random.Random(seed).shuffle(shuffled)
        lines.append(line_of(shuffled, some))
    expected, *others = ask(program, lines)
    return sum(answer != expected for answer in others)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="the folder with the sets")
    parser.add_argument("toolgate", type=Path, help="the program to ask")
    parser.add_argument("--shuffles", type=int, default=24, help="how many times each catalog is shuffled")
    args = parser.parse_args()
    if not args.toolgate.is_file():
        parser.error(f"{args.toolgate} is no file")
    sets = sorted(file.name.removesuffix(".tools.jsonl") for file in args.folder.glob("*.tools.jsonl"))
    if not sets:
        parser.error(f"{args.folder} has no sets")
    program, scores, differences = args.toolgate.resolve(), [], 0
    print("set          queries  recall@1  recall@5")
    for name in sets:
        tools = rows(args.folder / f"{name}.tools.jsonl")
        queries = rows(args.folder / f"{name}.queries.jsonl")
        tools = [{key: tool[key] for key in ("server", "name", "description", "input_schema") if tool.get(key) is not None} for tool in tools]
        steps = [row for row in queries if not row.get("whole_task")]
        whole = [row for row in queries if row.get("whole_task")]
        scores.append(score(program, tools, steps))
        print(f"{name:12} {len(steps):7}  {scores[-1][0]:8.3f}  {scores[-1][1]:8.3f}", flush=True)
        if whole:
            first, five = score(program, tools, whole)
            print(f"  whole tasks {len(whole):6}  {first:8.3f}  {five:8.3f}", flush=True)
        count = changed(program, tools, queries, args.shuffles)
        if count:
            print(f"  {count} of {args.shuffles} shuffled catalogs change the answer", flush=True)
        differences += count
    print(f"{'mean':20}  {mean([first for first, _ in scores]):8.3f}  {mean([five for _, five in scores]):8.3f}")
    print(f"{differences} of {args.shuffles * len(sets)} shuffled catalogs change an answer")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
