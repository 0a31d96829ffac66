"""Puts the questions of `corpus.py` to two programs, and reports every answer that differs.

    compare.py OLD NEW [--seed N] [--count N]

A difference is shown with the fewest masks and the shortest text that still make one. The answers of OLD are kept in the
folder for temporary files, so the next comparison with it takes half the time. The exit code is 1 if any answer differs.
"""

import argparse
import collections
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.dont_write_bytecode = True  # the source tree stays as it is

import corpus

BATCH = 100
# How long a program may take for a batch, and for one question, in seconds.
BATCH_LIMIT = 600
QUESTION_LIMIT = 60
# The maximum number of characters that are asked for making one difference smaller.
MAX_TRIED = 20_000_000


class Program:
    """A program that answers lines; if it ends or hangs, it is started again."""

    # How programs have ended so far.
    told = set()

    def __init__(self, path):
        self.path = path
        self.process = None
        self.errors = tempfile.TemporaryFile()

    def ask(self, lines):
        """Returns the answer to each line; for a line that ends the program, how it ended."""
        answers = self.answers(lines, BATCH_LIMIT)
        if len(answers) == len(lines):
            return answers
        # Answers that were not written out yet are lost with the program, so each line is asked alone.
        return [(self.answers([line], QUESTION_LIMIT) or [self.ending()])[0] for line in lines]

    def answers(self, lines, limit):
        """Returns the answers that arrive in time, or all before the program ends."""
        self.start()
        process, answers = self.process, []
        guard = threading.Timer(limit, process.kill)
        writer = threading.Thread(target=write, args=(process, lines), daemon=True)
        guard.start()
        writer.start()
        for _ in lines:
            answer = process.stdout.readline()
            if not answer.endswith(b"\n"):
                self.stop()
                break
            answers.append(answer[:-1].decode())
        guard.cancel()
        writer.join()
        return answers

    def start(self):
        if self.process is None:
            self.errors.seek(0)
            self.errors.truncate()
            # No configuration is read from the folder for temporary files.
            self.process = subprocess.Popen(
                [self.path, "eval"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, cwd=tempfile.gettempdir()
            )

    def stop(self):
        """Ends the program, and notes how it ended."""
        if self.process is not None:
            self.process.kill()
            self.code = self.process.wait()
            self.process = None

    def ending(self):
        """Returns how the program ended, in place of an answer."""
        self.errors.seek(0)
        said = self.errors.read().decode(errors="replace").strip().splitlines()
        words = f"{self.path} ended with exit code {self.code}: {' / '.join(said[:2])}"
        if words not in self.told:
            self.told.add(words)
            print(words, file=sys.stderr, flush=True)
        return ENDED


ENDED = "(the program ended)"


def write(process, lines):
    """Writes lines to a program, which may end before it has read them all."""
    try:
        process.stdin.write("".join(line + "\n" for line in lines).encode())
        process.stdin.flush()
    except OSError:
        pass


class Pair:
    """The two programs: each thread has both of them, and all cores have work."""

    def __init__(self, old, new, jobs):
        self.paths = {"old": old, "new": new}
        self.pool = ThreadPoolExecutor(jobs)
        self.own = threading.local()
        self.programs = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.pool.shutdown(cancel_futures=True)
        for program in self.programs:
            program.stop()

    def ask(self, name, lines):
        """Asks a program in this thread."""
        if not hasattr(self.own, name):
            program = Program(self.paths[name])
            self.programs.append(program)
            setattr(self.own, name, program)
        return getattr(self.own, name).ask(lines)

    def ask_all(self, lines, known):
        """Returns the answers of both programs; `known` has answers of OLD by line, and gets the others."""
        unknown = [line for line in lines if line not in known]
        batches = [("new", lines[at:at + BATCH]) for at in range(0, len(lines), BATCH)]
        batches += [("old", unknown[at:at + BATCH]) for at in range(0, len(unknown), BATCH)]
        answers, began = {"old": [], "new": []}, time.monotonic()
        for at, ((name, _), found) in enumerate(zip(batches, self.pool.map(lambda batch: self.ask(*batch), batches)), 1):
            answers[name] += found
            if at % 50 == 0 or at == len(batches):
                print(f"{at * 100 // len(batches)} % after {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
        known.update(zip(unknown, answers["old"]))
        return [known[line] for line in lines], answers["new"]

    def first_difference(self, questions):
        """Returns the first of these questions that the programs answer differently."""
        for at in range(0, len(questions), BATCH):
            some = questions[at:at + BATCH]
            lines = [corpus.line_of(question) for question in some]
            old, new = self.pool.map(lambda name: self.ask(name, lines), ["old", "new"])
            for question, *answers in zip(some, old, new):
                if answers[0] != answers[1]:
                    return question
        return None


def shrunk(pair, question):
    """Returns the smallest question like this one that the programs answer differently."""
    left = MAX_TRIED

    def first(count, candidates):
        """Returns the first of some candidates that makes a difference, unless too much has been tried."""
        nonlocal left
        left -= count * (len(question.text) + 1_000)
        return pair.first_difference(list(candidates)) if left > 0 else None

    if question.kind != "mask":
        question = first(2, [question._replace(kind=kind) for kind in ("mask", "text")]) or question
    masks = list(single_masks(question.masks))
    question = first(len(masks), (question._replace(masks=some) for some in masks)) or question
    while masks := list(fewer_masks(question.masks)):
        smaller = first(len(masks), (question._replace(masks=some) for some in masks))
        if smaller is None:
            break
        question = smaller
    size = max(1, len(question.text) // 2)
    while True:
        text = question.text
        places = range(0, len(text), size)
        smaller = first(len(places), (question._replace(text=text[:at] + text[at + size:]) for at in places))
        if smaller is not None:
            question = smaller
        elif size == 1 or left <= 0:
            return question
        else:
            size //= 2


def single_masks(masks):
    """Yields each pattern alone, and each custom pattern alone."""
    if masks["groups"] or len(masks["patterns"]) > 1:
        yield from (corpus.masks_of([], [pattern]) for pattern in corpus.PATTERNS)
    if masks["groups"] or masks["patterns"] or len(masks["custom"]) > 1:
        yield from ({"groups": [], "patterns": [], "custom": [mask]} for mask in masks["custom"])


def fewer_masks(masks):
    """Yields the masks without one of them."""
    if sum(map(len, masks.values())) > 1:
        for kind, names in masks.items():
            yield from ({**masks, kind: names[:at] + names[at + 1:]} for at in range(len(names)))


class Cache:
    """The answers of a program, by line, kept in a file that belongs to this very program."""

    def __init__(self, program):
        digest = hashlib.sha256(program.read_bytes()).hexdigest()[:24]
        self.file = Path(tempfile.gettempdir()) / "toolgate-masking" / f"{digest}.txt"

    def kept(self):
        """Returns all answers by the digests of their lines."""
        rows = self.file.read_text(encoding="utf-8").split("\n") if self.file.exists() else []
        return dict(row.split(" ", 1) for row in rows if row)

    def read(self, lines):
        """Returns the answers that are known for these lines."""
        kept = self.kept()
        return {line: kept[digest] for line in lines if (digest := digest_of(line)) in kept}

    def write(self, known):
        """Adds these answers to the file."""
        kept = self.kept() | {digest_of(line): answer for line, answer in known.items() if answer != ENDED}
        self.file.parent.mkdir(exist_ok=True)
        # Another comparison may read the file at this moment.
        part = self.file.with_suffix(f".{os.getpid()}")
        part.write_text("".join(f"{digest} {answer}\n" for digest, answer in kept.items()), encoding="utf-8")
        part.replace(self.file)


def digest_of(line):
    return hashlib.blake2b(line.encode(), digest_size=12).hexdigest()


def show(title, question, answers, original):
    """Prints a difference; texts are written as JSON."""
    masks = {kind: names for kind, names in question.masks.items() if names}
    print(f"\n{title}: section {question.section}, asked as {question.kind}, masks {json.dumps(masks)}")
    print(f"  text  {json.dumps(question.text)[:2_000]}")
    for name, answer in zip(["old", "new"], answers):
        print(f"  {name}   {answer[:2_000]}")
    if original.text != question.text:
        print(f"  from  {json.dumps(original.text)[:400]}")
    sys.stdout.flush()


def report(pair, differences, most):
    """Prints the differences, those of different sections first."""
    nth = collections.Counter()
    order = []
    for question in differences:
        nth[question.section] += 1
        order.append((nth[question.section], question))
    order.sort(key=lambda row: row[0])
    shown = {}
    for number, (_, original) in enumerate(order[:most], 1):
        question = shrunk(pair, original)
        line = corpus.line_of(question)
        if line in shown:
            print(f"\ndifference {number} in section {original.section} is difference {shown[line]} again", flush=True)
            continue
        shown[line] = number
        answers = [pair.ask(name, [line])[0] for name in ("old", "new")]
        show(f"difference {number} of {len(order)}", question, answers, original)
    if len(order) > most:
        print(f"\n{len(order) - most} differences are not shown; --show {len(order)} shows them")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path, help="the program that is right")
    parser.add_argument("new", type=Path, help="the program to compare with it")
    parser.add_argument("--seed", type=int, default=1, help="draw other questions")
    parser.add_argument("--count", type=int, default=30_000, help="about how many questions")
    parser.add_argument("--show", type=int, default=60, help="how many differences are made small and shown")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="how many programs run at once")
    parser.add_argument("--fresh", action="store_true", help="ask OLD again, even if its answers are known")
    args = parser.parse_args()
    for program in (args.old, args.new):
        if not program.is_file():
            parser.error(f"{program} is no file")
    began = time.monotonic()
    questions = list(corpus.questions(args.seed, args.count))
    lines = [corpus.line_of(question) for question in questions]
    cache = Cache(args.old)
    known = {} if args.fresh else cache.read(lines)
    with Pair(args.old.resolve(), args.new.resolve(), args.jobs) as pair:
        old, new = pair.ask_all(lines, known)
        cache.write(known)
        differences = [question for question, *answers in zip(questions, old, new) if answers[0] != answers[1]]
        report(pair, differences, args.show)
    masked = sum(question.kind == "mask" and json.dumps({"ok": question.text}) != json.dumps(read(answer)) for question, answer in zip(questions, new))
    errors = [sum("error" in read(answer) for answer in answers) for answers in (old, new)]
    ended = [answers.count(ENDED) for answers in (old, new)]
    print(f"\n{len(questions)} questions in {time.monotonic() - began:.0f} s; NEW masks something in {masked} of the plain texts")
    print(f"errors: {errors[0]} of OLD, {errors[1]} of NEW; ended: {ended[0]} times OLD, {ended[1]} times NEW")
    print(f"{len(differences)} differences")
    return 1 if differences else 0


def read(answer):
    """Returns what an answer says; nothing if there is none."""
    return {} if answer == ENDED else json.loads(answer)


if __name__ == "__main__":
    sys.exit(main())
