"""What every scenario is expected to come to: reading, comparing, writing, and the table that is made of it."""

import sys
import tomllib

HEAD = """# What every scenario of the conformance suite comes to: the checks that pass, and those that do not.
# `fails` means that the scenario as a whole does not pass; `unscored` says why the suite does not count it.
# A line that is no longer true fails the run, for better or worse. `run --write` makes this file anew.
"""
BEGIN, END = "<!-- conformance: begin -->", "<!-- conformance: end -->"


def line(outcome):
    """What is expected of a scenario, as it is written."""
    parts = {"checks": outcome.count("SUCCESS")}
    parts |= {word: outcome.count(status) for word, status in WORDS.items() if outcome.count(status)}
    if not outcome.passed:
        parts["fails"] = True
    if outcome.unscored:
        parts["unscored"] = outcome.unscored
    return parts


def compare(path, version, found):
    """Tells every difference to the file, and counts them."""
    wanted = tomllib.loads(path.read_text())
    wrong = 0
    if wanted["suite"] != version:
        print(f"FAIL the suite is {version}, and {path.name} is about {wanted['suite']}")
        wrong += 1
    for leg, revisions in found.items():
        for revision, outcomes in revisions.items():
            lines = wanted.get(leg, {}).get(revision, {})
            passed = sum(outcome.passed for outcome in outcomes.values())
            print(f"{leg} {revision}: {passed} of {len(outcomes)} scenarios pass")
            for name in sorted(lines.keys() | outcomes.keys()):
                given = line(outcomes[name]) if name in outcomes else None
                if given != lines.get(name):
                    wrong += 1
                    print(f"FAIL {leg} {revision} {name}: expected {lines.get(name)}, found {given}")
    return wrong


def write(path, version, found):
    """Writes the file anew."""
    text = f'{HEAD}\nsuite = "{version}"\n'
    for leg, revisions in found.items():
        for revision, outcomes in revisions.items():
            text += f'\n[{leg}."{revision}"]\n'
            for name, outcome in outcomes.items():
                parts = ", ".join(f"{key} = {value(part)}" for key, part in line(outcome).items())
                text += f'"{name}" = {{ {parts} }}\n'
    path.write_text(text)


def table(path, file):
    """Prints the table, or checks the one in a file."""
    wanted = tomllib.loads(path.read_text())
    rows = [
        f"| suite {wanted['suite']} | required | checks | unscored |",
        "|---|---|---|---|",
    ]
    for leg, title in TITLES.items():
        for revision, lines in wanted.get(leg, {}).items():
            scored = [line for line in lines.values() if "unscored" not in line]
            others = [line for line in lines.values() if "unscored" in line]
            checks = sum(line["checks"] for line in scored)
            missed = sum(line.get(word, 0) for line in scored for word in ("failed", "warnings"))
            row = [f"{title} {revision}", passes(scored), f"{checks} of {checks + missed}", passes(others)]
            rows.append(f"| {' | '.join(row)} |")
    text = "\n".join(rows)
    if file is None:
        print(text)
        return 0
    there = file.read_text().partition(BEGIN)[2].partition(END)[0].strip()
    if there == text:
        return 0
    print(f"FAIL the table in {file} is not what {path.name} says; between the marks should be:\n{text}", file=sys.stderr)
    return 1


def passes(lines):
    return f"{sum('fails' not in line for line in lines)} of {len(lines)}" if lines else "–"


def value(part):
    return str(part).lower() if isinstance(part, bool) else f'"{part}"' if isinstance(part, str) else str(part)


WORDS = {"failed": "FAILURE", "warnings": "WARNING", "skipped": "SKIPPED"}
TITLES = {"client": "client", "server": "server, through the gateway"}
