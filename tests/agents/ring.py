"""Tries what the pages on clients say to write: `run TOOLGATE DIR [PAGE…]`, after `install DIR`.

Each SDK starts a gateway of its own on standard input and output, and connects to one over HTTP. The models follow a script.
The entries for other clients are read and used by toolgate, which knows their formats.
Every check is one line, `ok …` or `FAIL …`; the last line counts them, and a failure makes the exit code 1.
"""

import argparse
import json
import os
import re
import secrets
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True  # the source tree stays as it is

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "replicas"))

import rules  # noqa: E402
from processes import Late, Processes, quiet_environment, until  # noqa: E402

CLIENTS = HERE.parents[1] / "docs" / "src" / "clients"
SDKS = {"openai-agents": "openai", "langchain": "langchain", "pydantic-ai": "pydantic", "fastmcp": "fastmcp"}
# FastMCP has a client and no agent, so its agent is here.
WITHOUT_PAGE = {"fastmcp": HERE / "scripted_fastmcp.py"}
ENTRIES = ["claude-code", "cursor", "vs-code"]
LISTENING = re.compile(r"listening on (http://127\.0\.0\.1:\d+/mcp)")
LIMIT = 5 * 60  # seconds for all checks of one page in one way


def main():
    parser = argparse.ArgumentParser(prog="run", description=__doc__.splitlines()[0])
    parser.add_argument("toolgate", type=Path, help="the binary")
    parser.add_argument("packages", type=Path, metavar="DIR", help="the folder that `install` filled")
    known = [*ENTRIES, *SDKS]
    parser.add_argument("pages", nargs="*", metavar="PAGE", help=f"only these of: {', '.join(known)}")
    args = parser.parse_args()
    if unknown := set(args.pages) - set(known):
        parser.error(f"no such page: {', '.join(sorted(unknown))}")
    # However this program is stopped, it stops what it started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped by SIGTERM"))
    lines = []
    with tempfile.TemporaryDirectory(prefix="toolgate-agents-") as folder:
        folder = Path(folder).resolve()
        token = secrets.token_hex(16)
        environment = prepare(folder, args.toolgate.resolve(), token)
        (folder / "toolgate.yaml").write_text(json.dumps(rules.config()))
        with Processes(folder / "logs") as processes:
            command = ["toolgate", "serve", "--config", folder / "toolgate.yaml", "--http", "127.0.0.1:0"]
            gateway = processes.start("gateway", command, **environment)
            site = [gateway.wait_for_line(LISTENING, LIMIT)[1], token]
            for page in args.pages or known:
                if page in ENTRIES:
                    lines += use_entries(page, site, folder, environment)
                else:
                    lines += play(args.packages.resolve(), page, [], folder, environment)
                    lines += play(args.packages.resolve(), page, site, folder, environment)
    failed = sum(line.startswith("FAIL") for line in lines)
    print(f"{len(lines) - failed} ok, {failed} failed")
    return 1 if failed else 0


def prepare(folder, toolgate, token):
    """The environment of a user whose home is `folder` and who has installed toolgate."""
    (folder / "bin").mkdir()
    (folder / "bin/toolgate").symlink_to(toolgate)
    return {
        "HOME": str(folder),
        "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "AGENT_TOKEN": token,
        "OPENAI_AGENTS_DISABLE_TRACING": "1",
        "LANGSMITH_TRACING": "false",
    }


def use_entries(page, site, folder, environment):
    """Lets toolgate list tools by the two entries of a page, and returns a line for each."""
    url, token = site
    variables = {"GATEWAY_TOKEN": token, "TOOLGATE_INPUT_GATEWAY_TOKEN": token}
    environment = {**quiet_environment(), **environment, **variables}
    blocks = re.findall(r"^```json\n(.*?)^```$", (CLIENTS / f"{page}.md").read_text(), re.DOTALL | re.MULTILINE)
    lines = []
    for way, mark, value, listed in (
        ("stdio", "/path/to/toolgate.yaml", str(folder / "toolgate.yaml"), rules.FOR_LOCAL),
        ("http", "http://127.0.0.1:8899/mcp", url, rules.FOR_TOKEN),
    ):
        file = folder / f"{page}-{way}.json"
        file.write_text("".join(block.replace(mark, value) for block in blocks if mark in block))
        command = ["toolgate", "tools", "--config", file, "--json"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=LIMIT)
        right = set(re.findall(r'"name": *"toolgate__(\w+)"', done.stdout)) == listed
        lines.append(f"{'ok  ' if right else 'FAIL'} {page} {way}: toolgate finds the tools by the entry")
        print(lines[-1] if right else f"{lines[-1]}\n{done.stdout[:500]}\n{done.stderr}", flush=True)
    return lines


def play(packages, page, site, folder, environment):
    """Runs the code of a page with its SDK, and returns the lines of its checks."""
    name, sdk = f"{page} {'http' if site else 'stdio'}", SDKS[page]
    code = WITHOUT_PAGE.get(page, CLIENTS / f"{page}.md")
    command = [packages / sdk / "bin/python", HERE / "play.py", sdk, code, *site]
    environment, here = {**quiet_environment(), **environment}, folder / name
    here.mkdir()
    (here / "toolgate.yaml").symlink_to(folder / "toolgate.yaml")
    try:
        done = subprocess.run(command, cwd=here, env=environment, capture_output=True, text=True, timeout=LIMIT)
        output, errors, why = done.stdout, done.stderr, f"exit code {done.returncode}" if done.returncode else ""
    except subprocess.TimeoutExpired as late:
        output, errors = ((stream or b"").decode(errors="replace") for stream in (late.stdout, late.stderr))
        why = f"still runs after {LIMIT} s"
    lines = [line for line in output.splitlines() if line.startswith(("ok ", "FAIL "))]
    left = left_in(here)
    for what, wrong in (("the program ends well", why), ("no process is left", left)):
        lines.append(f"{'FAIL' if wrong else 'ok  '} {name}: {what}{f': {wrong}' if wrong else ''}")
    print("\n".join(lines), flush=True)
    if any(line.startswith("FAIL") for line in lines):
        print("     " + errors[-3000:].strip().replace("\n", "\n     "), flush=True)
    return lines


def left_in(folder, limit=5):
    """Waits until no process works in a folder; returns the ids of those that stay, and ends them."""
    try:
        until(lambda: not working_in(folder), limit, "all processes to end")
        return []
    except Late:
        left = working_in(folder)
        for process in left:
            os.kill(process, signal.SIGKILL)
        return left


def working_in(folder):
    """The ids of the processes whose working directory is this one; none where there is no /proc."""
    found = []
    for link in Path("/proc").glob("[0-9]*/cwd"):
        try:
            if os.readlink(link) == str(folder):
                found.append(int(link.parent.name))
        except OSError:
            continue  # It ended while we looked, or is a zombie.
    return found


if __name__ == "__main__":
    sys.exit(main())
