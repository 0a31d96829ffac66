"""What the dashboard costs: `figures.py TOOLGATE`, with the Python that `install` has put there and nothing else on the machine.

A gateway has 100 servers with 50 tools each, and 10,000 calls are made. Then a browser opens its page, again and again, and
calls go on with the page open and without it, in turns. Every figure is one line; none makes the exit code 1.
"""

import argparse
import http.client
import json
import os
import re
import statistics
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "replicas"))
sys.dont_write_bytecode = True  # the source tree stays as it is

from page import Page  # noqa: E402
from processes import Processes, until  # noqa: E402

SERVERS, TOOLS, CALLS = 100, 50, 10_000
LISTENING = re.compile(r"listening on http://(127\.0\.0\.1:\d+)/mcp")
TOKEN = "a-token-for-the-figures"
PATIENCE = 60  # seconds, for whatever is waited for
SETTLE = 5  # seconds after which a page that was opened has loaded what no view shows yet
TICK = os.sysconf("SC_CLK_TCK")


class Client:
    """A client that calls one tool after the other."""

    def __init__(self, address):
        self.connection, self.made = http.client.HTTPConnection(address), 0

    def ask(self, method, path, body=None):
        headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
        self.connection.request(method, path, body and json.dumps(body), headers)
        response = self.connection.getresponse()
        text = response.read()
        assert response.status == 200, (path, response.status, text)
        return json.loads(text)

    def call(self):
        """Calls the next server, and returns how long that took."""
        self.made += 1
        name = f"s{self.made % SERVERS}__look_{self.made % TOOLS}"
        begun = time.perf_counter()
        answer = self.ask("POST", "/api/v1/mcp/call", {"name": name, "arguments": {"id": str(self.made)}})
        assert answer["code"] == "ok", answer
        return time.perf_counter() - begun

    def calls_for(self, seconds, pace=None):
        """Calls for a while, without a pause or so many times a second, and returns the median time of a call."""
        begun, times = time.monotonic(), []
        while (passed := time.monotonic() - begun) < seconds:
            if pace and len(times) >= passed * pace:
                time.sleep(1 / pace)
            else:
                times.append(self.call())
        return statistics.median(times)


def browser_of(page):
    """The process of the browser. What controls it, and tells it to report each request, is no part of what people run."""
    controller = page.driver.service.process.pid
    (browser,) = (stat.parent for stat in Path("/proc").glob("[0-9]*/stat") if parent_of(stat) == controller)
    return int(browser.name)


def parent_of(stat):
    with suppress(OSError):  # it may have ended meanwhile
        return int(stat.read_text().rsplit(") ", 1)[1].split()[1])


def processor_time(process):
    """The seconds that a process and all below it have taken."""
    children, times = {}, {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            number, rest = stat.read_text().split(" (", 1)
        except OSError:
            continue  # it has ended meanwhile
        fields = rest.rsplit(") ", 1)[1].split()
        children.setdefault(int(fields[1]), []).append(int(number))
        times[int(number)] = (int(fields[11]) + int(fields[12])) / TICK
    total, found = 0, [process]
    while found:
        number = found.pop()
        total += times.get(number, 0)
        found += children.get(number, [])
    return total


def first_paint(page, address):
    """Opens the page anew: when it painted first, and when the figures of the gateway were on it, in milliseconds."""
    page.driver.get("about:blank")
    page.driver.get(f"http://{address}/#token={TOKEN}")
    shown = page.until("""
        return document.querySelectorAll('.pace').length === arguments[0] && performance.now()
    """, SERVERS, limit=PATIENCE)
    painted = page.run("return performance.getEntriesByName('first-contentful-paint')[0]?.startTime")
    return painted, shown


def measure(toolgate, folder):
    with Processes(folder) as processes:
        upstream = processes.start("upstream", [sys.executable, HERE.parent / "replicas/upstream.py", TOOLS])
        port = upstream.wait_for_line(re.compile(r"(\d+)")).group(1)
        servers = {f"s{number}": {"url": f"http://127.0.0.1:{port}/mcp", "eager": True} for number in range(SERVERS)}
        tokens = [{"principal": "ops", "token": TOKEN, "admin": True}]
        config = folder / "toolgate.json"
        config.write_text(json.dumps({"version": 1, "servers": servers, "gateway": {"tokens": tokens}}))
        arguments = ["--config", config, "serve", "--http", "127.0.0.1:0"]
        # A line of log for each call would be measured too.
        gateway = processes.start("gateway", [toolgate, *arguments], TOOLGATE_LOG="warn", HOME=str(folder))
        address = gateway.wait_for_line(LISTENING).group(1)
        client = Client(address)

        def ready():
            servers = client.ask("GET", "/api/v1/servers")["servers"]
            return all(server["ready"] for server in servers)

        until(ready, PATIENCE, "all servers to be ready")
        for _ in range(CALLS):
            client.call()

        page = Page(f"http://{address}", watched=False)
        try:
            paints = [first_paint(page, address) for _ in range(9)]
            for place, what in enumerate(["first paint of the page", "until all its figures are there"]):
                print(f"{what:<62} {statistics.median(paint[place] for paint in paints):6.0f} ms", flush=True)

            seconds, pace = 30, 20
            browser = browser_of(page)
            states = [("an empty page", 0), ("the dashboard, no calls", 0), (f"the dashboard, {pace} calls a second", pace)]
            for what, calls in states:
                if what == states[0][0]:
                    page.driver.get("about:blank")
                else:
                    first_paint(page, address)
                time.sleep(SETTLE)
                before, begun = processor_time(browser), time.monotonic()
                client.calls_for(seconds, calls) if calls else time.sleep(seconds)
                share = 100 * (processor_time(browser) - before) / (time.monotonic() - begun)
                print(f"{f'the browser with {what}':<62} {share:6.1f} % of a core", flush=True)

            gateway_time = {"": [], "page": []}
            times = {"": [], "page": []}
            for turn in range(12):
                which = ["", "page"][turn % 2]
                if which:
                    first_paint(page, address)
                else:
                    page.driver.get("about:blank")
                time.sleep(SETTLE)
                made, before = client.made, processor_time(gateway.program.pid)
                times[which].append(client.calls_for(5))
                gateway_time[which].append((processor_time(gateway.program.pid) - before) / (client.made - made))
            for what, of in [("a call", times), ("the gateway's processor time for a call", gateway_time)]:
                without, beside = (statistics.median(of[which]) for which in ["", "page"])
                print(f"{f'{what} with the page open':<62} {beside / without:6.3f} × of {without * 1e6:.0f} µs", flush=True)
        finally:
            page.driver.quit()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("toolgate", type=Path, help="the program, as it is released")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        measure(args.toolgate.resolve(), Path(folder))


if __name__ == "__main__":
    main()
