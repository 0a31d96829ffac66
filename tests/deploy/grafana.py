"""Checks the dashboard of deploy/grafana against the metrics of a real gateway, and its queries against a real Prometheus."""

import http.client
import itertools
import json
import re
import secrets
import shutil
import urllib.parse
from pathlib import Path

from client import Failed, ModernClient
from cluster import ADA, BOB, LISTENING, Redis
from processes import Processes, free_port, until

ROOT = Path(__file__).resolve().parents[2]
BOARD = ROOT / "deploy" / "grafana" / "toolgate.json"
WIT = ROOT / "wit" / "execution.wit"
COLUMNS = 24  # of Grafana's grid
# What Prometheus itself adds to each sample.
TARGET_LABELS = {"instance", "job"}
# Labels of which a gateway always shows all values.
COMPLETE = {"state", "reason", "outcome"}
KINDS = {"row", "stat", "timeseries", "bargauge"}


def dashboard(report, toolgate, folder):
    """The dashboard: its form, the names in its queries, and what Prometheus says to them."""
    board = json.loads(BOARD.read_text())
    queries = form(report, board)
    with Processes(folder) as processes:
        port = gateway(processes, toolgate, folder)
        make_calls(port)
        samples = read_samples(port)
        names(report, board, queries, samples)
        program = shutil.which("prometheus")
        if not program:
            report.skip("Prometheus answers every query", "prometheus was not found")
            return
        prometheus(report, processes, program, folder, port, queries)


def form(report, board):
    """What Grafana expects of the file; returns the queries, each with the title of its panel."""
    check, panels = report.check, board["panels"]
    check("the dashboard has an id and a title, and no id of one database", board["uid"] == board["title"] == "toolgate" and board["id"] is None)
    ids = [panel["id"] for panel in panels]
    check("each panel has an id of its own", len(ids) == len(set(ids)) and all(isinstance(id, int) and id > 0 for id in ids), ids)
    titles = [panel["title"] for panel in panels if panel["type"] != "row"]
    check("each panel has a known type, and a title", {panel["type"] for panel in panels} == KINDS and all(titles), titles)
    check("each panel says what it shows", all(panel.get("description") for panel in panels if panel["type"] != "row"))
    # The grid.
    cells = {}
    wrong = []
    for panel in panels:
        place = panel["gridPos"]
        if place.keys() != {"x", "y", "w", "h"} or place["w"] < 1 or place["h"] < 1 or place["x"] + place["w"] > COLUMNS:
            wrong.append((panel["title"], place))
        for cell in itertools.product(range(place["x"], place["x"] + place["w"]), range(place["y"], place["y"] + place["h"])):
            if cell in cells:
                wrong.append((panel["title"], "covers", cells[cell]))
            cells[cell] = panel["title"]
    check("no panel covers another, or leaves the grid", not wrong, wrong[:5])
    # The data source is the reader's choice, everywhere.
    variables = {variable["name"]: variable for variable in board["templating"]["list"]}
    check("it has its variables", list(variables) == ["datasource", "instance", "server", "principal"], list(variables))
    chosen = {"type": "prometheus", "uid": "${datasource}"}
    users = [*variables.values(), *(user for panel in panels for user in [panel, *panel.get("targets", [])])]
    users = [user for user in users if user.get("type") not in ("datasource", "row")]
    elsewhere = [user.get("title") or user.get("expr") or user.get("name") for user in users if user.get("datasource") != chosen]
    check("all of them ask the data source that the reader chose", not elsewhere, elsewhere)
    queries, wrong = [], []
    for panel in panels:
        targets = panel.get("targets", [])
        queries += [(panel["title"], target["expr"]) for target in targets]
        if len({target["refId"] for target in targets}) != len(targets) or (panel["type"] == "row") == bool(targets):
            wrong.append(panel["title"])
    check("panels have queries, with a reference each", not wrong, wrong)
    queries += [(f"variable {name}", variable["definition"]) for name, variable in variables.items() if name != "datasource"]
    same = all(variable["definition"] == variable["query"]["query"] for name, variable in variables.items() if name != "datasource")
    check("variables have one query each", same)
    used = {name for _, query in queries for name in re.findall(r"\$\{?(\w+)", query)} - {"__rate_interval", "__range"}
    check("queries use the variables, and no others", used == variables.keys() - {"datasource"}, used)
    return queries


def gateway(processes, toolgate, folder):
    """Starts a gateway that has every metric, and returns its port."""
    config = {
        "version": 1,
        "servers": {
            "demo": {"command": str(toolgate), "args": ["demo-server"], "queue": "slow"},
            "down": {"command": str(folder / "no-such-program"), "eager": True},
        },
        "gateway": {
            "socket": False,
            "tokens": [{"principal": "ada", "token": ADA, "admin": True}, {"principal": "bob", "token": BOB, "servers": {"demo": ["echo"]}}],
            "session_keys": [secrets.token_hex(32)],
            "store": Redis(processes).url,
        },
        "record": {"dir": str(folder / "records")},
        "shadow": {"config": "next.json"},
    }
    candidate = {**config, "servers": {**config["servers"], "demo": {**config["servers"]["demo"], "deny": ["echo"]}}}
    for name, content in (("toolgate.json", config), ("next.json", candidate)):
        (folder / name).write_text(json.dumps(content))
        (folder / name).chmod(0o600)
    command = [toolgate, "--config", folder / "toolgate.json", "serve", "--http", "127.0.0.1:0"]
    process = processes.start("gateway", command, XDG_CACHE_HOME=str(folder), XDG_STATE_HOME=str(folder))
    return int(process.wait_for_line(LISTENING)[1])


def make_calls(port):
    """Makes calls that succeed, fail and are denied, and waits until the shadow policy has judged one of them differently."""
    for token, tool in ((ADA, "demo__echo"), (ADA, "demo__fail"), (BOB, "demo__echo"), (BOB, "demo__add"), (ADA, "nobody__knows")):
        client = ModernClient(port, token)
        try:
            client.call(tool, {"text": "hello"})
        except Failed as failed:
            if failed.kind != "error":
                raise
        finally:
            client.close()
    until(lambda: re.search(r"^toolgate_shadow_divergences_total\{", metrics(port), re.MULTILINE), 60, "the shadow policy to differ")


def metrics(port):
    return get(port, "/metrics", {"Authorization": f"Bearer {ADA}"})


def get(port, path, headers=None):
    """The text of a page."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request("GET", path, headers=headers or {})
        return connection.getresponse().read().decode()
    finally:
        connection.close()


def read_samples(port):
    """The values of each label of each metric."""
    samples = {}
    for line in metrics(port).splitlines():
        if not line.startswith("#"):
            name, labels = re.match(r"(\w+)(?:\{(.*)\})? ", line).groups()
            values = samples.setdefault(name, {})
            for label, value in re.findall(r'(\w+)="([^"]*)"', labels or ""):
                values.setdefault(label, set()).add(value)
    return samples


def names(report, board, queries, samples):
    """Whether each name in a query is one that the gateway has; and whether the dashboard leaves none of its metrics out."""
    codes = set(re.findall(r"^ {8}([\w-]+),$", re.search(r"enum code \{(.*?)^ {4}\}", WIT.read_text(), re.DOTALL | re.MULTILINE)[1], re.MULTILINE))
    used, wrong = set(), []
    for title, query in queries:
        for name, selector in re.findall(r"\b(toolgate_\w+)(?:\{([^}]*)\})?", query):
            used.add(name)
            if name not in samples:
                wrong.append(f"{title}: there is no metric {name}")
                continue
            for label, operator, value in re.findall(r'(\w+)(=~|!~|!=|=)"([^"]*)"', selector):
                known = codes if label == "code" else samples[name].get(label)
                if label not in samples[name].keys() | TARGET_LABELS:
                    wrong.append(f"{title}: {name} has no label {label}")
                elif label in COMPLETE | {"code"} and "$" not in value and not set(value.split("|")) <= known:
                    wrong.append(f"{title}: {label} of {name} is never {value}")
        # Labels that samples are summed by are those of one of the query's metrics.
        there = {label for name in re.findall(r"\btoolgate_\w+", query) for label in samples.get(name, {})} | TARGET_LABELS
        grouped = [label.strip() for labels in re.findall(r"\b(?:by|without) \(([^)]*)\)", query) for label in labels.split(",")]
        wrong += [f"{title}: there is no label {label} to sum by" for label in grouped if label not in there]
    for panel in board["panels"]:
        for target in panel.get("targets", []):
            shown = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
            kept = {label.strip() for labels in re.findall(r"\bby \(([^)]*)\)", target["expr"]) for label in labels.split(",")}
            if not shown <= (kept or samples.get(re.search(r"toolgate_\w+", target["expr"])[0], {}).keys() | TARGET_LABELS):
                wrong.append(f"{panel['title']}: the legend shows {shown}, the query has {kept}")
    report.check("a gateway has each metric, label and value of the queries", not wrong, "\n".join(wrong))
    missing = samples.keys() - used
    report.check("the dashboard shows each metric of a gateway", not missing, missing)


def prometheus(report, processes, program, folder, port, queries):
    """Has a Prometheus read the gateway's metrics, and puts each query to it."""
    (folder / "token").write_text(ADA)
    (folder / "prometheus.yml").write_text(f"""
global: {{scrape_interval: 200ms, scrape_timeout: 200ms}}
scrape_configs:
  - job_name: toolgate
    authorization: {{credentials_file: token}}
    static_configs: [{{targets: ["127.0.0.1:{port}"]}}]
""")
    own = free_port()
    options = [f"--web.listen-address=127.0.0.1:{own}", f"--storage.tsdb.path={folder / 'tsdb'}", f"--config.file={folder / 'prometheus.yml'}"]
    server = processes.start("prometheus", [program, *options])
    server.wait_for_line(re.compile("ready to receive web requests"))

    def ask(path, **parameters):
        return json.loads(get(own, f"/api/v1/{path}?{urllib.parse.urlencode(parameters)}"))

    # Rates need two samples, and counters that are not new.
    until(lambda: filled(ask("query", query='count_over_time(toolgate_ready[1m]) > 2')), 30, "Prometheus to read the metrics thrice")
    wrong, empty = [], []
    for title, query in queries:
        if match := re.fullmatch(r"label_values\((.*), (\w+)\)", query):
            query = f"count by ({match[2]}) ({match[1]})"
        query = re.sub(r"\$(instance|server|principal)", ".*", query.replace("$__rate_interval", "1m").replace("$__range", "1h"))
        answer = ask("query", query=query)
        if answer["status"] != "success":
            wrong.append(f"{title}: {answer.get('error')}: {query}")
        elif not filled(answer):
            empty.append(title)
    report.check(f"Prometheus answers all {len(queries)} queries", not wrong, "\n".join(wrong))
    # Nothing is in trouble yet but the server that cannot start, and a mean needs calls while Prometheus looks.
    report.check("with values", not set(empty) - {"Servers in trouble"}, empty)


def filled(answer):
    return answer["status"] == "success" and answer["data"]["result"]
