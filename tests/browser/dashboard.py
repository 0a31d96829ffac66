"""Looks at the dashboard with a real browser: `dashboard.py URL AXE [--token T] [--artifacts DIR]`, after `install DIR`.

The gateway at URL has the demo server under the id `demo` and names in the double-underscore style. AXE is the file
`axe.min.js` of the npm package axe-core, which looks for what keeps people with disabilities out. Every check is one line,
`ok …` or `FAIL …`; the last line counts them, and a failure makes the exit code 1.
"""

import argparse
import json
import sys
from pathlib import Path
from urllib.parse import urlencode

from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

sys.dont_write_bytecode = True  # the source tree stays as it is
from page import THEMES, WIDTHS, Page, Report, is_accessible, is_self_contained, press, run

# What a hostile server could put into its tools: markup, control characters, names that mean something in a browser,
# objects where texts belong, and more depth than a stack has room for. It is text, since nothing writes such depth.
HOSTILE = r"""[{"name": "evil__markup", "server": "evil", "tool": "markup",
  "description": "<img src=x onerror=\"window.owned=1\"> \u001b[2J \u202eevil <script>window.owned=1</script>",
  "inputSchema": {"type": "object", "required": 7, "properties": {
    "reportValidity": {"type": "toString"}, "__proto__": {"description": {"toString": 1}}, "<b>": {"enum": ["<i>", {}]},
    "reference": {"$ref": "#/constructor/prototype"}, "any": {"anyOf": [null, 1]}}}},
  {"name": "evil__deep", "server": "evil", "tool": "deep", "description": "LONG", "inputSchema": DEEP}, """
HOSTILE = HOSTILE.replace("LONG", "x" * 5000).replace("DEEP", '{"a":' * 20000 + "1" + "}" * 20000)

SLOW = 60  # seconds, for what the gateway answers after everything else

HOSTILE_NAME = "\u202e<img src=x onerror=window.owned=1>"

# Stands between the page and the gateway, before the page's own script runs.
BETWEEN = """
const real = window.fetch;
window.seen = [];
window.fetch = (path, options) => {
  window.seen.push({path, token: options.headers.Authorization});
  return between(path, options, () => real(path, options));
};
"""


class Dashboard(Page):
    """The dashboard in a browser, and what a person does with it."""

    def __init__(self, url, token):
        super().__init__(url)
        self.token, self.injected = token, None

    def open(self, view="servers", between=None):
        """Loads the page anew; `between` is the body of a function that may answer in the gateway's place."""
        self.listen()
        self.driver.get("about:blank")
        if self.injected:
            self.driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", {"identifier": self.injected})
            self.injected = None
        if between:
            source = f"{BETWEEN}\nasync function between(path, options, go) {{ {between} }}"
            added = self.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": source})
            self.injected = added["identifier"]
        if between or not self.token:
            self.driver.get(f"{self.url}/#{view}")
            return
        # As the link does that the gateway prints.
        self.driver.get(f"{self.url}/#token={self.token}")
        self.run("location.hash = arguments[0]", view)
        if view:
            self.until("return !document.getElementById(arguments[0]).hidden", f"{view.split('?')[0]}-view")

    def give_token(self, token):
        """Answers the dialog, unless the page has a token already."""
        if self.until("return document.querySelector('dialog').open ? 'asked' : token && 'known'") == "asked":
            self.find("#token").send_keys(token, Keys.ENTER)

    def view(self, name):
        self.find(f"nav a[href='#{name}']").send_keys(Keys.ENTER)  # a click could miss a link that moves
        self.until("return !document.getElementById(arguments[0]).hidden", f"{name}-view")

    def search(self, words):
        box = self.find("#search")
        box.send_keys(Keys.CONTROL, "a")
        box.send_keys(words)
        # Rows move when the gateway answers.
        self.until("return / of /.test(document.getElementById('found').textContent)")

    def choose(self, css, value):
        """Chooses in a list as a person does. A driver tells the page less, and letters that are typed too slowly are lost."""
        self.run("""
            const list = document.querySelector(arguments[0]);
            list.focus();
            list.value = arguments[1];
            list.dispatchEvent(new Event("input", {bubbles: true}));
        """, css, value)

    def open_tool(self, name):
        """Opens the row of a tool and says which element it is."""
        self.view("tools")
        self.search(name)
        row = self.until(
            "return [...document.querySelectorAll('.tool')].find(row => "
            "row.querySelector('.name').textContent === arguments[0])",
            name,
        )
        if row is not None and not self.run("return arguments[0].querySelector('details').open", row):
            self.open_row(row, "form")
        return row

    def open_row(self, row, css):
        """Opens a row and returns what it then has: the browser tells the page later that a row has opened."""
        row.find_element(By.CSS_SELECTOR, "summary").send_keys(Keys.ENTER)  # a click could miss a row that moves
        return self.until("return arguments[0].querySelector(arguments[1])", row, css)

    def call(self, row, **arguments):
        """Fills in the form of an open tool, calls it and says what it answered."""
        for name, value in arguments.items():
            field = row.find_element(By.CSS_SELECTOR, f"[data-name='{name}']")
            field.clear()
            field.send_keys(value)
        row.find_element(By.CSS_SELECTOR, "form button.main").send_keys(Keys.ENTER)
        if self.token:
            self.give_token(self.token)
        self.until("return arguments[0].querySelector('[role=status] .badge') !== null", row)
        return self.run("return arguments[0].querySelector('.result').textContent", row)


def loads(page, report):
    page.open()
    report.check("servers appear", page.until("return document.querySelectorAll('.server').length > 0"))
    report.check("demo has a state in words", page.until(DEMO + "return demo?.querySelector('.badge').textContent"))
    readiness = page.until("return /ready/.test(document.getElementById('readiness').textContent)")
    report.check("the banner tells the readiness", readiness, page.text("#readiness"))
    who = page.until("return document.getElementById('principal').textContent")
    report.check("it says who one is", who == f"you are local ({'admin' if page.token else 'read-only'})", who)
    report.check("updates are live", page.until("return document.getElementById('live').textContent === 'live'"))
    page.view("tools")
    report.check("tools appear", page.until("return document.querySelectorAll('.tool').length > 0"))


def gives_an_overview(page, report):
    page.open("tools")
    page.call(page.open_tool("demo__add"), a="1", b="2")
    page.call(page.open_tool("demo__fail"))
    page.open("")
    report.check("it is the first view", page.until("return !document.getElementById('overview-view').hidden"))
    row = "return [...document.querySelectorAll('.pace')].map(row => row.innerText).find(text => /^demo/.test(text))"
    told = page.until(row) or ""
    report.check("it has the servers with their calls", all(word in told for word in ["Calls", "Tool errors", "p99"]), told)
    labels = page.run("return [...document.querySelectorAll('#charts svg')].map(chart => chart.ariaLabel)")
    report.check("each chart says what it shows", len(labels) == 4 and all("in the last " in label for label in labels), labels)
    report.check("errors are counted", "tool errors" in labels[2] and " 0 tool errors" not in labels[2], labels)
    page.find("#figures summary").send_keys(Keys.ENTER)
    rows = page.until("const rows = document.querySelectorAll('#figure-rows tr').length; return rows === 12 && rows")
    report.check("the figures are in a table too", rows == 12, rows)
    page.find(".pace button").send_keys(Keys.ENTER)
    opened = page.until("return !document.getElementById('servers-view').hidden && document.activeElement.className === 'head'")
    report.check("a server leads to its row", opened)


def shows_what_needs_a_person(page, report):
    page.open("overview", between=f"""
        const response = await go();
        if (!response.ok) return response;
        if (path.endsWith("shadow?limit=100")) {{
          return Response.json({{shadow: {{running: false, off: {json.dumps(HOSTILE_NAME)}, divergences: []}}}});
        }}
        if (!path.endsWith("servers")) return response;
        const answer = await response.json();
        answer.gateway.store = "unreachable";
        answer.gateway.not_applied = "toolgate.yaml:3:1: <b>no</b>";
        answer.servers.push({{...answer.servers[0], server: "gone", state: "failed", ready: false}});
        answer.warnings = [
          {{server: "gone", text: "it is down: <b>no</b> such file", since: new Date()}},
          {{server: "", text: "rule \\"old\\" matches no tool", since: new Date()}}];
        return Response.json(answer);
    """)
    if page.token:
        page.give_token(page.token)
    items = "return [...document.querySelectorAll('#attention li')].map(item => item.innerText.replace(/\\s+/g, ' '))"
    page.until(items + ".length === 5")
    told = page.run(items)
    for words in ["gone it is down: <b>no</b> such file", "Rules rule \"old\" matches no tool", "Store it cannot be reached",
                  "Configuration it stays as it was: toolgate.yaml:3:1: <b>no</b>", "Shadow policy it is off: ⟨U+202E⟩<img"]:
        report.check(f"it says {words}", any(item.startswith(words) for item in told), told)
    tones = page.run("return [...document.querySelectorAll('#attention li')].map(item => item.dataset.tone)")
    report.check("what is broken comes first", tones == ["bad", "bad", "bad", "warn", "warn"], tones)
    report.check("the bar counts them", page.text("#overview-count") == "5", page.text("#overview-count"))
    made = page.run("return document.querySelectorAll('main img, main b').length + (window.owned ?? 0)")
    report.check("and hostile texts are text", made == 0, made)


def shows_how_a_server_was(page, report):
    page.open("servers", between=f"""
        const response = await go();
        if (!response.ok || !path.includes("servers/demo/log")) return response;
        const isFirst = path.endsWith("after=0");
        const answer = await response.json();
        const ago = minutes => new Date(Date.now() - minutes * 60_000);
        answer.states = [
          {{at: ago(90), state: "ready"}}, {{at: ago(40), state: "restarting"}}, {{at: ago(39), state: "ready"}},
          {{at: ago(10), state: "restarting"}}, {{at: ago(9), state: "failed"}}];
        answer.lines = isFirst ? [{{number: 1, at: ago(41), source: "stderr", text: {json.dumps(HOSTILE_NAME)}}}] : [];
        answer.last = 300;
        answer.lost = isFirst ? 299 : 0;
        return Response.json(answer);
    """)
    if page.token:
        page.give_token(page.token)
    opened = "document.querySelector('.server details').open = true; return true"
    page.until(DEMO + "if (!demo) return false;" + opened)
    if not page.token:
        report.check("only admins see the log", page.run("return document.querySelector('.timeline').checkVisibility()") is False)
        return
    told = page.until("return document.querySelector('.timeline').ariaLabel") or ""
    said = told.startswith("In the last hour: failed since ") and told.endswith(", 2 restarts")
    report.check("the time line says what it shows", said, told)
    tones = page.run("return [...document.querySelectorAll('.timeline rect')].map(part => part.dataset.tone)")
    report.check("it has each state of the hour", tones == ["good", "warn", "good", "warn", "bad"], tones)
    log = page.run("return document.querySelector('.log').innerText")
    report.check("the log has what the server wrote", "⟨U+202E⟩<img" in log, log)
    report.check("and says that older lines are gone", "The last 1 of 300 lines" in page.text("#server-rows"))
    made = page.run("return document.querySelectorAll('main img').length + (window.owned ?? 0)")
    report.check("and hostile texts in it are text", made == 0, made)
    page.open("servers")
    page.until(DEMO + "if (!demo) return false;" + opened)
    before = len(page.until("return document.querySelectorAll('.log li')") or [])
    page.find(".server button[aria-label='Reconnect demo']").send_keys(Keys.ENTER)
    grew = page.until("return document.querySelectorAll('.log li').length > arguments[0]", before)
    report.check("the log goes on", grew, page.text(".log"))


def finds_tools(page, report):
    page.open("tools")
    page.until("return document.querySelectorAll('.tool').length > 0")
    names = "return [...document.querySelectorAll('.tool .name')].map(name => name.textContent)"
    all_names = page.run(names)
    page.search("numbers adds")
    report.check("the search looks into descriptions", "demo__add" in page.run(names), page.run(names))
    page.search("demo__ad")
    report.check("half a name is found", "demo__add" in page.run(names), page.run(names))
    page.search("add two numbers")
    report.check("the best tool comes first", page.run(names)[:1] == ["demo__add"], page.run(names))
    report.check("and says why", page.text(".tool .why").startswith("found by name: add"), page.text(".tool .why"))
    report.check("the hits are counted", page.text("#found").endswith(f" of {len(all_names)}"), page.text("#found"))
    told = page.run("return document.getElementById('found').getAttribute('role')")
    report.check("screen readers are told how many", told == "status", told)
    page.search("no such tool anywhere")
    page.run("document.getElementById('search').select()")
    press(page, Keys.BACKSPACE)
    report.check("an empty field shows all again", page.run(names) == all_names, page.run(names))
    reasons = page.run("return [...document.querySelectorAll('.tool .why')].filter(it => it.checkVisibility()).length")
    report.check("without reasons", reasons == 0 and page.text("#found") == "", page.text("#found"))
    page.search("xyzzyplugh")
    report.check("a search without a hit says so", page.run(names) == [] and page.find("#tools-empty").is_displayed())


def finds_what_the_gateway_finds(page, report):
    page.open("tools", between="""
        if (!path.includes("mcp/tools/search")) return go();
        if (path.includes("broken")) return Response.json({error: "out of order"}, {status: 500});
        const hit = (tool, why) => ({name: `demo__${tool}`, server: "demo", tool, score: 1, why});
        return Response.json({tools: [hit("echo", "<b>first</b>"), hit("gone", "it was here"), hit("add", "second")]});
    """)
    if page.token:
        page.give_token(page.token)
    page.until("return document.querySelectorAll('.tool').length > 0")
    page.search("anything & all")
    names = page.run("return [...document.querySelectorAll('.tool .name')].map(name => name.textContent)")
    report.check("hits keep their order, without a tool that is gone", names == ["demo__echo", "demo__add"], names)
    report.check("a reason is text", page.text(".tool .why") == "found by <b>first</b>", page.text(".tool .why"))
    asked = page.run("return window.seen.map(({path}) => path).filter(path => path.includes('search'))")
    report.check("the whole text is asked for", asked and "query=anything%20%26%20all&" in asked[-1], asked)
    page.search("demo__add broken")
    report.check("a failed search says so", "out of order" in page.text("#found"), page.text("#found"))


def shows_what_definitions_cost(page, report):
    page.open("tools")
    cost = "const cost = [...document.querySelectorAll('.tool .tokens')].map(it => it.textContent);"
    each = page.until(cost + "return cost.length > 0 && cost.every(text => /^about [\\d,]+ tokens?$/.test(text))")
    report.check("each tool has its tokens", each, page.run(cost + "return cost"))
    report.check("the sum is told", "take about" in page.text("#cost-sum"), page.text("#cost-sum"))
    titles = page.run("return ['#cost-sum', '.tool .tokens'].map(css => document.querySelector(css).title)")
    report.check("and how it is estimated", all("four bytes" in title for title in titles), titles)
    page.find("#cost-sum").send_keys(Keys.ENTER)
    told, is_open = page.find("#cost").text, page.run("return document.getElementById('cost').open")
    report.check("each server has its tokens", is_open and "demo" in told, told)
    page.view("servers")
    page.until(DEMO + "return demo !== undefined")
    page.run(DEMO + "demo.querySelector('details').open = true")
    facts = DEMO + "return demo.querySelector('.facts').textContent"
    page.until(facts + ".includes('Definitionsabout ')")
    report.check("also in its row", "Definitionsabout " in page.run(facts), page.run(facts))


def tries_a_tool(page, report):
    page.open("tools")
    row = page.open_tool("demo__add")
    schema = page.run("return arguments[0].querySelector('pre:not(.prose)').textContent", row)
    report.check("the schema is there", '"properties"' in schema, schema)
    answer = page.call(row, a="1", b="2")
    report.check("1 and 2 make 3", answer.startswith("3"), answer)
    answer = page.call(row, a="9007199254740993", b="0")
    report.check("a large number keeps its digits", '"sum": 9007199254740993' in answer, answer)
    field = row.find_element(By.CSS_SELECTOR, "[data-name='a']")
    field.clear()
    field.send_keys("one", Keys.ENTER)
    report.check("what is no number is not sent", page.run("return !arguments[0].validity.valid", field))
    row.find_element(By.XPATH, ".//button[.='Write JSON']").click()
    text = row.find_element(By.CSS_SELECTOR, "label.field textarea")
    text.clear()
    text.send_keys('{"a": 20, "b": 22}')
    answer = page.call(row)
    report.check("arguments can be written by hand", answer.startswith("42"), answer)


def shows_recent_calls(page, report):
    page.open("tools")
    page.call(page.open_tool("demo__add"), a="1", b="2")
    page.view("calls")
    newest = "const row = [...document.querySelectorAll('.call')].find(row => /demo__add/.test(row.textContent));"
    report.check("the call is among the recent ones", page.until(newest + "return row !== undefined"))
    row = page.run(newest + "return row")
    trace = page.open_row(row, "ol")
    steps = page.run("return arguments[0].children.length", trace) if trace else 0
    report.check("its trace can be opened", steps > 0 and trace.is_displayed())
    page.call(page.open_tool("demo__add"), a="3", b="4")
    page.view("calls")
    report.check("the next one comes by itself", page.until(newest + "return row !== arguments[0]", row))
    stayed = page.run("return arguments[0].isConnected && arguments[0].querySelector('details').open", row)
    report.check("and leaves an open row open", stayed)


def selects_calls(page, report):
    page.open("tools")
    page.call(page.open_tool("demo__add"), a="1", b="2")
    page.call(page.open_tool("demo__fail"))
    page.view("calls")
    codes = "const codes = [...document.querySelectorAll('.call .badge')].map(it => it.textContent);"
    page.until(codes + "return codes.includes('ok') && codes.includes('tool-error')")
    page.choose("#filter [name=code]", "tool-error")
    only = codes + "return codes.length > 0 && codes.every(code => code === 'tool-error')"
    report.check("calls are selected by their outcome", page.until(only), page.run(codes + "return codes"))
    address = page.run("return location.hash")
    report.check("the address says so", address == "#calls?code=tool-error", address)
    page.view("servers")
    page.view("calls")
    report.check("who comes back finds the same", page.run("return location.hash") == address)
    page.open(address[1:])
    report.check("whoever gets the address sees the same", page.until(only), page.run(codes + "return codes"))
    page.open_row(page.find(".call"), ".body ol")
    story = page.run("return document.querySelector('.call .body').innerText")
    for part in ["the tool answered with an error of its own", "demo__fail", "How it was decided"]:
        report.check(f"a row tells {part}", part in story, story)
    page.find(".call .body a").send_keys(Keys.ENTER)
    fields = "return [...document.querySelectorAll('#filter :is(input, select)')].map(it => it.value)"
    page.until("return document.querySelector('#filter [name=tool]').value === 'fail'")
    report.check("and leads to calls like it", page.run(fields) == ["", "demo", "fail", "", ""], page.run(fields))
    page.find("#filter [name=tool]").send_keys(Keys.BACKSPACE, Keys.BACKSPACE, "*")
    found = page.until("return location.hash.includes('tool=fa*') && document.querySelectorAll('#call-rows > li').length > 0")
    report.check("a part of a name is enough", found, page.text("#calls-said"))
    page.find("#filter-clear").send_keys(Keys.ENTER)
    report.check("all calls come back", page.until(codes + "return codes.includes('ok')"), page.run("return location.hash"))
    report.check("and the address is short again", page.run("return location.hash") == "#calls")
    page.open("calls?code=nonsense&since=1h")
    said = page.until("const it = document.getElementById('calls-said').textContent; return /unknown code/.test(it) && it")
    report.check("a filter that means nothing is explained", said, page.text("#calls-said"))
    report.check("and the page is well", page.text("#problem") == "", page.text("#problem"))
    page.driver.get("about:blank")  # the page asks again, and is refused again
    page.listen()
    page.complaints = [entry for entry in page.complaints if "nonsense" not in entry]  # the refusal itself
    page.open("calls?" + urlencode({"tool": "<img src=x onerror=window.owned=1>", "server": "__proto__", "principal": "\u202e"}))
    page.until("return document.getElementById('calls-empty').checkVisibility()")
    made = page.run("return document.querySelectorAll('main img').length + (window.owned ?? 0)")
    report.check("a hostile filter is text", made == 0 and page.run(fields)[:2][1] == "__proto__", page.run(fields))


def loads_older_calls(page, report):
    page.open("calls", between=f"""
        const url = new URL(path, location), parameters = url.searchParams;
        if (!path.includes("v1/calls")) return go();
        // Call number N ended N seconds after midnight; the gateway remembers those from 300 on, and records have all.
        const call = number => ({{id: `c${{number}}`, at: new Date(Date.UTC(2026, 0, 1, 0, 0, number)).toISOString(),
          principal: "ann", name: number % 2 ? "demo__add" : {json.dumps(HOSTILE_NAME)}, server: "demo", tool: "add",
          code: "ok", is_error: false, attempts: 1, latency_ms: number, trace: ["<b>it</b> \u202e was"], folder: "a"}});
        const all = Array.from({{length: 700}}, (_, place) => call(699 - place));
        const kept = parameters.has("recorded") ? all : all.slice(0, 400);
        const until = parameters.get("until") ?? "9", after = parameters.get("after");
        const page = kept.filter(({{at}}) => at <= until && after === null).slice(0, parameters.get("limit"));
        return Response.json({{calls: page, last: 700, lost: 0, problems: []}});
    """)
    if page.token:
        page.give_token(page.token)
    count = "return document.querySelectorAll('#call-rows > li').length"
    report.check("the newest calls come first", page.until(count + " === 100"), page.run(count))
    page.open_row(page.find(".call:nth-child(2)"), ".body ol")
    for expected in [299, 400, 598, 700]:
        page.find("#older").send_keys(Keys.ENTER)
        report.check(f"then older ones, {expected} in all", page.until(f"{count} >= {expected}"), page.run(count))
        page.until("return document.getElementById('older').ariaBusy !== 'true'")
    page.find("#older").is_displayed() and page.find("#older").send_keys(Keys.ENTER)
    ended = page.until("return document.getElementById('older').hidden")
    report.check("until there are none", ended and "all calls" in page.text("#calls-said"), page.text("#calls-said"))
    names = page.run("return [...document.querySelectorAll('.call .number.soft')].map(it => it.textContent)")
    report.check("each once, in their order", len(names) == 700 and names == sorted(names, reverse=True), len(names))
    report.check("an open row stays open", page.run("return document.querySelector('.call:nth-child(2) details').open"))
    made = page.run("return document.querySelectorAll('main img, main b').length + (window.owned ?? 0)")
    said = page.text(".call:nth-child(2)")
    report.check("and hostile names are text", made == 0 and "⟨U+202E⟩" in said and "<img" in said, said)


def shows_what_agents_have_seen(page, report):
    page.open("tools")
    page.call(page.open_tool("demo__add"), a="1", b="2")
    shown = "return !document.getElementById('agents-link').hidden"
    report.check("an agent that has seen something is listed", page.until(shown))
    page.view("agents")
    rows = "const rows = [...document.querySelectorAll('#agent-rows > *')].map(row => row.textContent);"
    report.check("with its labels", page.until(rows + "return rows.some(row => /local.*counted/.test(row))"))
    page.find("#agent-rows .buttons button").send_keys(Keys.ENTER)
    report.check("and is forgotten on request", page.until(rows + "return rows.length === 0"))


def asks_about_a_tried_tool(page, report):
    page.open("tools")
    row = page.open_tool("demo__sleep")
    asked = "return document.querySelector('dialog[open] pre')?.textContent"
    for answer, expected in [(Keys.ESCAPE, "declined"), (Keys.ENTER, "declined"), ("yes", "ok")]:
        field = row.find_element(By.CSS_SELECTOR, "[data-name='seconds']")
        field.clear()
        field.send_keys("0.01")
        page.run("arguments[0].querySelector('[role=status]').textContent = ''", row)
        row.find_element(By.CSS_SELECTOR, "form button.main").send_keys(Keys.ENTER)
        if page.token:
            page.give_token(page.token)
        told = page.until(asked)
        report.check("the page shows what will be sent", told == '{"seconds":0.01}', told)
        if answer == Keys.ESCAPE:
            is_accessible(page, report, "dashboard, the question about a call")
        if answer == "yes":
            page.find("dialog[open] button.main").click()
        else:
            press(page, answer)
        page.until("return arguments[0].querySelector('[role=status] .badge') !== null", row)
        code = page.run("return arguments[0].querySelector('[role=status] .badge').textContent", row)
        report.check(f"the call is then {expected}", code == expected, code)
    left = page.run("return document.querySelectorAll('dialog').length")
    report.check("no dialog is left", left == 1, left)


def lists_calls_that_wait(page, report):
    page.open("approvals", between=f"""
        const call = (id, more) => ({{id, server: "demo", tool: "rm", rule: "ask: rm", principal: "ann", own: false, bytes: 9,
          arguments: "<b>all</b> " + "x".repeat(3000), since: new Date(), until: new Date(Date.now() + 60000), ...more}});
        window.left ??= [call("1", {{principal: {json.dumps(HOSTILE_NAME)}}}), call("2", {{}}), call("3", {{own: true}})];
        if (path.endsWith("/approvals")) return Response.json({{approvers: "admins", approvals: window.left}});
        if (!path.includes("/approvals/")) return go();
        window.decided = [...(window.decided ?? []), [path, options.body]];
        window.left = window.left.filter(({{id}}) => !path.endsWith(id));
        return Response.json({{}});
    """)
    if page.token:
        page.give_token(page.token)
    rows = "return document.querySelectorAll('#approval-rows > li').length"
    report.check("they are listed", page.until(rows + " === 3"), page.run(rows))
    shown = page.until("return !document.getElementById('approvals-link').hidden") and page.text("#approvals-count")
    report.check("the bar counts them", shown == "3", shown)
    sent = page.text("#approval-rows pre")
    report.check("all that is sent is there", sent.startswith("<b>all</b> x") and len(sent) == 3011, len(sent))
    made = page.run("return document.querySelectorAll('main img, main b').length + (window.owned ?? 0)")
    title = page.text("#approval-rows h3")
    report.check("hostile names are text", made == 0 and "⟨U+202E⟩<img" in title, title)
    own = page.run("return document.querySelector('#approval-rows > li:nth-child(3)').innerText")
    report.check("the own call says who decides it", "another admin" in own and "Approve" not in own, own)
    for width in WIDTHS:
        page.size(width, 900)
        for theme in THEMES:
            page.prefer(theme)
            is_accessible(page, report, f"dashboard, waiting calls, {width}, {theme}")
    page.size(1280, 900)
    page.prefer("light")
    page.run("document.activeElement.blur()")
    report.check("a button is reached with Tab", tab_to(page, "Deny rm of demo for ann"))
    press(page, Keys.ENTER)
    decided = page.until("return window.decided")
    report.check("and decides its own call", decided == [["api/v1/approvals/2", '{"approve":false}']], decided)
    told = page.until("return /You denied it/.test(document.getElementById('approval-rows').textContent)")
    report.check("the row stays for a moment and says so", told)
    page.find("#approval-rows > li:first-child button.main").send_keys(Keys.ENTER)
    decided = page.until("return window.decided.length === 2 && window.decided[1]")
    report.check("approving sends it", decided == ["api/v1/approvals/1", '{"approve":true}'], decided)
    report.check("then they are gone", page.until(rows + " === 1"), page.run(rows))
    page.view("overview")
    told = page.until("return [...document.querySelectorAll('#attention li')].map(it => it.innerText).find(it => /wait/.test(it))")
    report.check("the overview tells of them", told and "a call waits for an admin" in told, told)


def shows_a_call_of_its_own_that_waits(page, report):
    if not page.token:
        return
    page.open("approvals")
    page.until("return document.documentElement.dataset.role === 'admin'")
    page.run("""
        window.waits = new AbortController();
        const body = JSON.stringify({name: "demo__sleep", arguments: {seconds: 0}});
        const headers = {"Content-Type": "application/json", Authorization: `Bearer ${arguments[0]}`};
        fetch("api/v1/mcp/call", {method: "POST", body, headers, signal: window.waits.signal}).catch(() => {});
    """, page.token)
    row = page.until("return document.querySelector('#approval-rows > li')?.innerText")
    report.check("it is there by itself", row and "sleep of demo for local" in row and "another admin" in row, row)
    page.run("window.waits.abort()")
    gone = page.until("return document.getElementById('approvals-count').textContent === ''")
    report.check("and goes with its caller", gone)


def looks_as_somebody_else(page, report):
    page.open("tools")
    page.until("return document.querySelectorAll('#as option').length > 1")
    page.run("document.getElementById('as').value = 'local'; document.getElementById('as').dispatchEvent(new Event('change'))")
    page.until("return document.querySelectorAll('.tool').length > 0")
    row = page.open_tool("demo__add")
    button = row.find_element(By.CSS_SELECTOR, "form button.main").text
    report.check("nothing is called", button == "Decide", button)
    answer = page.call(row, a="1", b="2")
    told = page.run("return arguments[0].querySelector('[role=status]').textContent", row)
    report.check("but what would be decided is told", "would be called" in told and "nothing was called" in told, told)
    report.check("with what would be sent and why", '"a": 1' in answer and "Trace" in answer, answer)
    page.call(page.open_tool("demo__sleep"), seconds="1")
    told = page.run("return document.querySelector('.tool[open], .tool details[open] [role=status]').textContent")
    report.check("also that a person would be asked", page.until(
        "return [...document.querySelectorAll('.tool [role=status]')].some(it => /would need approval/.test(it.textContent))"), told)
    is_accessible(page, report, "dashboard, as somebody else")
    page.run("document.getElementById('as').value = ''; document.getElementById('as').dispatchEvent(new Event('change'))")
    button = "return [...document.querySelectorAll('.tool form button.main')].map(it => it.textContent)"
    page.until("return document.querySelectorAll('.tool').length > 0 && document.querySelectorAll('.tool form').length === 0")
    page.open_tool("demo__add")
    report.check("who is oneself again calls", page.run(button) == ["Call"], page.run(button))


def reads_resources_and_prompts(page, report):
    page.open("resources")
    page.until("return document.querySelectorAll('#resource-rows > li').length > 1")
    row = page.find("#resource-rows > li")
    page.open_row(row, "form input").send_keys(Keys.ENTER)
    if page.token:
        page.give_token(page.token)
    told = page.until("return arguments[0].querySelector('.result pre')?.textContent", row)
    report.check("a resource is read", told and "demo server" in told, told)
    prompt = page.find("#prompt-rows > li")
    page.open_row(prompt, "[data-name='name']").send_keys("<b>Ada")
    prompt.find_element(By.CSS_SELECTOR, "form button.main").send_keys(Keys.ENTER)
    told = page.until("return arguments[0].querySelector('.result pre')?.textContent", prompt)
    report.check("a prompt is got with its arguments, as text", told == "Greet <b>Ada in one friendly sentence.", told)
    is_accessible(page, report, "dashboard, resources that were read")


def shows_who_may_use_what(page, report):
    page.open("access", between=f"""
        if (path.endsWith("rules")) return Response.json({{rules: [], since: new Date()}});
        if (path.endsWith("servers")) {{
          const answer = await (await go()).json();
          answer.gateway.principal.admin = true;
          return Response.json(answer);
        }}
        if (!path.includes("v1/access")) return go();
        const cells = [{{verdict: "allow", rule: "allowed: no allow list", trace: []}},
          {{verdict: "ask", rule: "needs approval: <b>it</b> deletes", trace: ["allowed: no allow list", "\u202e"]}},
          {{verdict: "deny", rule: "denied: this tool is not selected", trace: []}}];
        const names = ["read", "write", {json.dumps(HOSTILE_NAME)}, ...Array.from({{length: 5000}}, (_, at) => `tool_${{at}}`)];
        const tools = names.map((tool, at) => ({{server: at < 3 ? "files" : "__proto__", tool, group: Math.min(at, 3)}}));
        return Response.json({{principals: ["ann", "<i>bob</i>"], cells, groups: [[0, 0], [1, 2], [2, 1], [0, 2]], tools,
          unlisted: ["late"]}});
    """)
    if page.token:
        page.give_token(page.token)
    count = "return document.querySelectorAll('#matrix tbody tr').length"
    report.check("tools are in rows", page.until(count + " === 1500"), page.run(count))
    heads = page.run("return [...document.querySelectorAll('#matrix th')].slice(0, 6).map(it => [it.scope, it.textContent])")
    told = [["col", "Tool"], ["col", "ann"], ["col", "<i>bob</i>"], ["row", "files.read"], ["row", "files.write"]]
    report.check("principals are in columns, and both are headers", heads[:5] == told, heads)
    report.check("hostile names are text", "⟨U+202E⟩<img" in heads[5][1], heads)
    said = page.text("#access-said")
    report.check("it says what is not known", "5,003 of 5,003 tools" in said and "the tools of late" in said, said)
    page.run("document.querySelector('#matrix').closest('.wide').focus()")
    press(page, Keys.TAB)
    place = "const it = document.activeElement; return it.closest('tr').rowIndex + '/' + it.closest('td')?.cellIndex"
    report.check("the table is one stop", page.run(place) == "1/1", page.run(place))
    press(page, Keys.ARROW_DOWN)
    press(page, Keys.ARROW_RIGHT)
    report.check("arrows move in it", page.run(place) == "2/2", page.run(place))
    press(page, Keys.ARROW_RIGHT)
    report.check("and stop at its end", page.run(place) == "2/2", page.run(place))
    press(page, Keys.ARROW_LEFT)
    press(page, Keys.ENTER)
    told = page.text("#access-told")
    report.check("Enter tells the rule", told.startswith("ann may call, if a person approves, write of files: needs approval: <b>it"), told)
    report.check("with all that was checked", "allowed: no allow list" in told and "⟨U+202E⟩" in told, told)
    report.check("to screen readers too", page.run("return document.getElementById('access-told').role") == "status")
    names = "return [...document.querySelectorAll('#matrix tbody th')].map(it => it.textContent)"
    page.find("#access-filter [name=tool]").send_keys("FILES.wr*")
    report.check("tools are selected", page.until(count + " === 1") and page.run(names) == ["files.write"], page.run(names))
    page.find("#access-filter [name=tool]").clear()
    page.run("const it = document.querySelector('#access-filter [name=tool]'); it.value = ''; it.dispatchEvent(new Event('input', {bubbles: true}))")
    page.choose("#access-filter [name=verdict]", "ask")
    report.check("so are rights", page.until(count + " === 2"), page.run(names))
    page.choose("#access-filter [name=principal]", "ann")
    report.check("and principals", page.until(count + " === 1") and page.run("return document.querySelectorAll('#matrix thead th').length") == 2)
    page.find("#access-filter [name=labels]").send_keys("untrusted, b&c")
    asked = page.until("return window.seen.some(({path}) => path.endsWith('access?labels=untrusted%2C+b%26c'))")
    report.check("labels are asked for", asked, page.run("return window.seen.map(({path}) => path).slice(-3)"))
    made = page.run("return document.querySelectorAll('#access-view :is(img, b, i)').length + (window.owned ?? 0)")
    report.check("nothing is made of hostile texts", made == 0, made)
    page.run("accessForm.reset(); showAccess()")
    both = page.run("return document.querySelectorAll('#matrix thead th').length")
    page.size(360, 800)
    one = both == 3 and page.until("return document.querySelectorAll('#matrix thead th').length === 2")
    report.check("a phone shows one principal", one and page.run("return document.documentElement.scrollWidth") <= 360)
    page.size(1280, 900)


def tries_a_candidate(page, report):
    page.open("tools")
    page.call(page.open_tool("demo__echo"), text="hi")
    page.open("access")
    page.until("return document.querySelectorAll('#matrix tbody tr').length > 0", limit=SLOW)
    page.until("return /have matched/.test(document.getElementById('rules-sum').textContent)")
    page.find("#rules-sum").send_keys(Keys.ENTER)
    rules = page.until("return document.querySelector('#rule-rows table')?.innerText")
    report.check("rules are listed with their counts", rules and "long" in rules and "never" in rules, rules)
    page.find("#candidate summary").send_keys(Keys.ENTER)
    page.find("#candidate-form textarea").send_keys("servers: {demo: {command: none, deny: [echo], ask: [sleep]}}")
    page.find("#candidate-go").send_keys(Keys.ENTER)
    answer = page.until("return document.getElementById('candidate-answer').innerText", limit=SLOW)
    for words in ["0 granted, 1 taken", "demo.echo", "depends → deny", "denied by `deny: echo`", "no records"]:
        report.check(f"a candidate's answer tells {words}", words in (answer or ""), answer or page.text("#candidate-said"))
    page.find("#candidate-form textarea").send_keys("]")
    page.find("#candidate-go").send_keys(Keys.ENTER)
    refused = "const said = document.getElementById('candidate-said').textContent; return said.includes('new.yaml:') && said"
    said = page.until(refused, limit=SLOW)
    report.check("one that cannot be read is explained", said, page.text("#candidate-said"))
    page.listen()
    page.complaints = [entry for entry in page.complaints if "candidate" not in entry]  # the refusal itself


def shows_divergences_over_time(page, report):
    page.open("shadow", between="""
        if (!path.includes("v1/shadow")) return go();
        const judged = Array(60).fill(10), different = Array(60).fill(0);
        different[58] = 7;
        const history = {slot_s: 60, ends: new Date(), slots: {judged, different}};
        const divergence = {call: "c", at: new Date(), principal: "ann", name: "<b>x</b>", kind: "denied", rule: "r"};
        return Response.json({shadow: {about: "a", running: true, off: null, same: 593, different: 7, dropped: 0, failed: 0,
          kinds: {denied: 7}, divergences: [divergence], history}});
    """)
    if page.token:
        page.give_token(page.token)
    label = page.until("return document.querySelector('#shadow-chart svg')?.ariaLabel")
    report.check("the chart says what it shows", label and "Divergences in the last hour: 7, of 600 calls" in label, label)
    page.find("#shadow-figures summary").send_keys(Keys.ENTER)
    rows = page.until("const rows = [...document.querySelectorAll('#shadow-table tbody tr')]; return rows.length && rows.map(row => row.innerText)")
    report.check("the figures are in a table too", rows and len(rows) == 12 and rows[0].split()[-2:] == ["7", "50"], rows)
    is_accessible(page, report, "dashboard, shadow")


def works_by_keyboard(page, report):
    page.open()
    page.until(DEMO + "return demo !== undefined")
    page.run("document.activeElement.blur()")
    press(page, Keys.TAB)
    report.check("the first stop skips the bar", page.run("return document.activeElement.className") == "skip")
    report.check("a toggle is reached with Tab", tab_to(page, "Disable demo"))
    shown = page.run("return getComputedStyle(document.activeElement).outlineStyle")
    report.check("the focus can be seen", shown not in ("none", ""), shown)
    state = DEMO + "return demo.querySelector('.badge').textContent"
    press(page, Keys.ENTER)
    if page.token:
        page.give_token(page.token)
    disabled = page.until(f"return (() => {{ {state} }})() === 'disabled'")
    report.check("Enter disables the server", disabled, page.run(state))
    report.check("the focus stays where it was", page.run("return document.activeElement.ariaLabel") == "Enable demo")
    page.until("return document.activeElement.ariaBusy !== 'true'")  # the list may be there before the answer
    press(page, Keys.SPACE)
    enabled = page.until(f"return (() => {{ {state} }})() !== 'disabled'")
    report.check("the space bar enables it again", enabled, page.run(state))
    report.check("it comes back", page.until(f"return /ready|dormant/.test((() => {{ {state} }})())"), page.run(state))
    heading = page.run(DEMO + "const head = demo.querySelector('summary'); head.focus(); return head")
    press(page, Keys.ENTER)
    report.check("Enter opens a row", page.run("return arguments[0].parentElement.open", heading))


def has_two_themes(page, report):
    page.open()
    page.run("localStorage.clear()")
    page.prefer("light")
    page.open()
    light = page.brightness()
    page.prefer("dark")
    dark = page.brightness()
    report.check("it follows the system", light > 200 and dark < 60, f"light {light}, dark {dark}")
    page.find("#theme").click()
    report.check("the button makes it light", page.brightness() > 200, page.text("#theme"))
    page.open()
    report.check("and it is remembered", page.brightness() > 200, page.text("#theme"))
    page.find("#theme").click()
    page.prefer("light")
    report.check("the button makes it dark", page.brightness() < 60, page.text("#theme"))
    page.run("localStorage.clear()")


def fits_a_phone(page, report):
    page.size(320, 640)
    page.open()
    page.until(DEMO + "return demo !== undefined")
    for view in ["overview", "servers", "tools", "resources", "calls", "approvals", "access"]:
        page.view(view)
        if view == "tools":
            page.open_tool("demo__add")
        page.run("document.querySelector(`#${arguments[0]}-view details`)?.setAttribute('open', '')", view)
        width = page.run("return document.documentElement.scrollWidth")
        report.check(f"{view} fit into 320 points", width <= 320, f"{width} wide")
    page.size(1280, 900)


def shows_hostile_text_as_text(page, report):
    page.open("tools", between=f"""
        const response = await go();
        if (!path.endsWith("mcp/tools") || !response.ok) return response;
        return new Response((await response.text()).replace(/"tools":\\s*\\[/, () => '"tools":' + {json.dumps(HOSTILE)}));
    """)
    if page.token:
        page.give_token(page.token)
    row = page.open_tool("evil__markup")
    said = page.run("return arguments[0].querySelector('.prose').textContent", row) if row else ""
    report.check("markup is shown as text", '<img src=x onerror="window.owned=1">' in said, said)
    made = page.run("return document.querySelectorAll('main img, main script, main b, main i').length")
    report.check("and nothing is made of it", made == 0 and page.run("return window.owned") is None)
    report.check("control characters are shown", "⟨U+001B⟩" in said and "⟨U+202E⟩" in said, said)
    fields = page.run("return arguments[0].querySelectorAll('[data-name]').length", row)
    report.check("a hostile schema still has its fields", fields == 5, fields)
    row = page.open_tool("evil__deep")
    long = row.find_element(By.CSS_SELECTOR, "button.plain")
    report.check("a long text is cut", "5,000" in long.text, long.text)
    long.click()
    shown = page.run("return arguments[0].querySelector('.prose').textContent.length", row)
    report.check("and shown whole when asked", shown == 5000, shown)
    report.check("the page is well", page.text("#problem") == "", page.text("#problem"))
    row = page.open_tool("demo__echo")
    answer = page.call(row, text="<img src=x onerror=window.owned=1>")
    report.check("an answer is text too", answer.startswith("<img src=x"), answer)
    report.check("and none of it ran", page.run("return window.owned") is None)


def keeps_the_token_out_of_its_address(page, report):
    if not page.token:
        return
    page.open()
    history = page.run("return [location.href, ...performance.getEntriesByType('navigation').map(entry => entry.name)]")
    report.check("the address does not hold the token", page.token not in history[0], history[0])
    kept = page.run("return sessionStorage.getItem('toolgate-token')")
    report.check("the tab keeps the token", kept == page.token)
    page.driver.refresh()
    row = page.open_tool("demo__add")
    report.check("what a token is needed for goes on after a reload", "3" in page.call(row, a="1", b="2"))


def shows_what_went_wrong_by_name(page, report):
    page.open(between="""
        const response = await go();
        if (!path.endsWith("servers") || !response.ok) return response;
        const answer = await response.json();
        const [server] = answer.servers;
        Object.assign(server.calls, {calls: 16, ok: 1, failures: 0, tool_errors: 4, denied: 11});
        Object.assign(server, {description: "Adds <b>numbers</b>.", software: "demo 9.8.7", scope: "session",
          tool_names: ["add", "<i>echo</i>"]});
        return Response.json(answer);
    """)
    page.until(DEMO + "return demo !== undefined")
    cells = page.run(DEMO + "return [...demo.querySelectorAll('.cell')].slice(0, 4).map(cell => cell.textContent)")
    report.check("each kind has its figure", cells == ["Calls16", "Failures0", "Tool errors4", "Denied11"], cells)
    page.run(DEMO + "demo.querySelector('details').open = true")
    page.until(DEMO + "return demo.querySelector('.facts').textContent !== ''")
    said = page.run(DEMO + "return demo.querySelector('.body').innerText")
    for part in ["Adds <b>numbers</b>.", "demo 9.8.7", "session", "add, <i>echo</i>"]:
        report.check(f"the row tells {part}", part in said, said)


def asks_for_a_token(page, report):
    page.open(between="""
        const token = options?.headers?.Authorization;
        if (token !== "Bearer right") return new Response('{"error":"who are you?"}', {status: 401});
        if (options.method === "POST") return new Response('{"error":"readers only read"}', {status: 403});
        if (path.endsWith("events")) return new Response("", {status: 404});
        const server = {server: "demo", kind: "stdio", state: "ready", ready: true, since: new Date(), restarts: 0,
          calls: {calls: 0, failures: 0, tool_errors: 0}, queues: [], last_error: null};
        const tool = {name: "demo__add", server: "demo", tool: "add", inputSchema: {type: "object"}};
        const gateway = {principal: {name: "ann", admin: window.promoted ?? false}};
        const all = {calls: 0, failures: 0, tool_errors: 0, denied: 0, p50_ms: null, p99_ms: null, slot_s: 10,
          ends: new Date(), slots: {calls: [0], failures: [0], tool_errors: [0], denied: [0], p50_ms: [null], p99_ms: [null]}};
        return Response.json({gateway, ready: true, warnings: [], servers: path.endsWith("history") ? [] : [server],
          tools: [tool], failed: [], calls: [], agents: [], all, since: new Date()});
    """)
    asked = page.until("return document.querySelector('dialog').open")
    report.check("a token is asked for when it is wanted", asked)
    press(page, Keys.ESCAPE)
    page.until("return document.getElementById('live').textContent === 'not updating' && !refreshing")
    report.check("who gives none is not asked again", not page.run("return document.querySelector('dialog').open"))
    page.find("#token-button").send_keys(Keys.ENTER)
    page.find("#token").send_keys("wrong", Keys.ENTER)
    again = page.until("const it = document.querySelector('dialog'); return it.open && /rejected/.test(it.textContent)")
    report.check("a wrong one is asked for again", again, page.text("dialog"))
    page.find("#token").send_keys("right", Keys.ENTER)
    report.check("the right one opens the page", page.until(DEMO + "return demo !== undefined"))
    sent = page.run("return window.seen.at(-1).token")
    report.check("it is sent as a header", sent == "Bearer right", sent)
    kept = page.run("return document.cookie + JSON.stringify(localStorage) + JSON.stringify(sessionStorage)")
    report.check("and kept nowhere", "right" not in kept, kept)
    report.check("a reader is told so", page.text("#principal") == "you are ann (read-only)", page.text("#principal"))
    buttons = "return [...document.querySelectorAll('.server button')].filter(it => it.checkVisibility()).length"
    report.check("a reader has no buttons for servers", page.run(buttons) == 0, page.run(buttons))
    row = page.open_tool("demo__add")
    report.check("nor one for calls", not row.find_element(By.CSS_SELECTOR, "form button.main").is_displayed())
    report.check("but one for another token", page.find("#token-button").is_displayed())
    page.view("servers")
    page.run("window.promoted = true")
    report.check("an admin has them", page.until(buttons.replace("length", "length === 2")))
    report.check("an admin is told so", page.text("#principal") == "you are ann (admin)", page.text("#principal"))
    page.find("[aria-label='Disable demo']").send_keys(Keys.ENTER)
    told = page.until("return /not allowed with this token/.test(document.getElementById('notice').textContent)")
    report.check("what the token may not do is said", told, page.text("#notice"))
    polled = page.until("return window.seen.filter(({path}) => path.endsWith('servers')).length > 4")
    report.check("without a stream it asks again and again", polled)


def is_for_everybody(page, report):
    """Each view is accessible at every width and in both themes."""
    page.open("tools")
    page.call(page.open_tool("demo__add"), a="1", b="2")
    for width in WIDTHS:
        page.size(width, 900)
        for theme in THEMES:
            page.prefer(theme)
            for view, row in VIEWS.items():
                page.open(view)
                page.until("return document.querySelector(arguments[0]) !== null", row, limit=SLOW)
                page.run("document.querySelector(arguments[0] + ' details')?.setAttribute('open', '')", row)
                page.run("document.getElementById('figures').open = true")
                page.run("document.querySelectorAll('#access-view details').forEach(it => { it.open = true; })")
                is_accessible(page, report, f"dashboard, {view}, {width}, {theme}")
    page.size(1280, 900)
    page.prefer("light")


DEMO = """
const demo = [...document.querySelectorAll('.server')].find(row => row.querySelector('.name').textContent === 'demo');
"""
# The views, with what their rows are.
VIEWS = {"overview": "#pace-rows > li", "servers": "#server-rows > li", "tools": "#tool-rows > li",
         "resources": "#resource-rows > li", "calls": "#call-rows > li", "approvals": "#approval-rows",
         "access": "#matrix tbody tr", "agents": "#agent-rows > li"}
# The views that the documentation shows.
PICTURES = ["overview", "access"]
SCENES = [loads, gives_an_overview, shows_what_needs_a_person, shows_how_a_server_was, finds_tools, finds_what_the_gateway_finds,
          shows_what_definitions_cost, tries_a_tool, shows_recent_calls, selects_calls, loads_older_calls, shows_what_agents_have_seen,
          asks_about_a_tried_tool, lists_calls_that_wait, shows_a_call_of_its_own_that_waits, looks_as_somebody_else,
          reads_resources_and_prompts, shows_who_may_use_what, tries_a_candidate, shows_divergences_over_time, works_by_keyboard,
          has_two_themes, fits_a_phone, shows_hostile_text_as_text, keeps_the_token_out_of_its_address,
          shows_what_went_wrong_by_name, asks_for_a_token, is_for_everybody, is_self_contained]


def take_pictures(page, folder):
    """Takes the pictures of the documentation, after some minutes of calls of three principals."""
    page.open("tools")
    page.run("""
        const pause = ms => new Promise(resolve => setTimeout(resolve, ms));
        const version = "2026-07-28", space = "io.modelcontextprotocol";
        const _meta = {[`${space}/protocolVersion`]: version, [`${space}/clientCapabilities`]: {}};
        const call = (token, name, args) => fetch("mcp", {
          method: "POST",
          headers: {Authorization: `Bearer a-token-of-the-${token}`, "Content-Type": "application/json",
            Accept: "application/json, text/event-stream", "MCP-Protocol-Version": version, "Mcp-Method": "tools/call",
            "Mcp-Name": name},
          body: JSON.stringify({jsonrpc: "2.0", id: 1, method: "tools/call", params: {name, arguments: args, _meta}}),
        }).then(response => response.text());
        const calls = [
          ["support", "weather__forecast", {city: "Paris"}], ["operators", "numbers__add", {a: 1, b: 2}],
          ["support", "notes__echo", {text: "hello"}], ["nightly-job", "weather__forecast", {city: "Oslo"}],
          ["support", "numbers__add", {a: 3, b: 4}], ["operators", "notes__picture", {}],
        ];
        const seldom = [
          ["nightly-job", "notes__fail", {message: "no such note"}], ["support", "notes__fail", {message: "no such note"}],
          ["support", "numbers__add", {a: "three", b: 4}], ["support", "notes__echo", {text: "long ".repeat(30)}],
        ];
        (async () => {
          for (let round = 0; round < 900; round++) {
            await call(...calls[round % calls.length]);
            if (round % 29 === 0) await call(...seldom[round / 29 % seldom.length]);
            await pause(250 + 200 * Math.sin(round / 60) + 50 * (round % 3));
          }
          window.called = true;
        })();
    """)
    WebDriverWait(page.driver, 600).until(lambda _: page.run("return window.called"))
    folder.mkdir(parents=True, exist_ok=True)
    page.size(1200, 640)
    page.open("overview")
    # The charts have a slot when it is over.
    WebDriverWait(page.driver, 60).until(lambda _: "most" in page.text("#charts"))
    for view in PICTURES:
        page.view(view)
        page.until("return document.querySelector(arguments[0]) !== null", VIEWS[view])
        page.run("document.activeElement.blur()")
        page.driver.save_screenshot(str(folder / f"{view}.png"))


def tab_to(page, label):
    """Presses Tab until the focus is on what has this label."""
    for _ in range(400):
        if page.run("return document.activeElement.ariaLabel") == label:
            return True
        press(page, Keys.TAB)
    return False


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("url", help="where the gateway is, such as http://127.0.0.1:8808")
    parser.add_argument("axe", type=Path, help="axe.min.js of axe-core")
    parser.add_argument("--token", help="a token of an admin, if the gateway wants one")
    parser.add_argument("--pictures", type=Path, help="only take the pictures of the documentation, into this folder")
    parser.add_argument("--artifacts", type=Path, help="the folder for pictures")
    args = parser.parse_args()
    page = Dashboard(args.url, args.token)
    if args.pictures:
        take_pictures(page, args.pictures)
        page.driver.quit()
        return 0
    return run(page, Report(page, args.artifacts, args.axe.read_text()), SCENES)


if __name__ == "__main__":
    sys.exit(main())
