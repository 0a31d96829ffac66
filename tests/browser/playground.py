"""Uses the playground with a real browser: `playground.py DIR AXE [--artifacts DIR]`, with what `install DIR` has put there.

DIR is what `docs/playground/build.mjs` made, and AXE the file `axe.min.js` of the npm package axe-core, which looks for what keeps
people with disabilities out. Every check is one line; a failure makes the exit code 1.
"""

import argparse
import json
import sys
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import quote, urlencode

from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

sys.dont_write_bytecode = True  # the source tree stays as it is
from page import THEMES, WIDTHS, Page, Report, is_accessible, is_self_contained, press, run

PARTS = ["names", "arguments", "masks", "rules", "search"]
SHOWN = "section:not([hidden])"
HOSTILE = '<img src=x onerror="window.owned=1"> \u202eevil \u001b[2J <script>window.owned=1</script>'


class Site(SimpleHTTPRequestHandler):
    """A server of static files that knows nothing: no type but the usual ones, and no header of its own."""

    extensions_map = {"": "application/octet-stream", ".html": "text/html", ".js": "text/javascript", ".css": "text/css",
                      ".svg": "image/svg+xml"}
    changed = {}  # other contents of files, by their path
    policy = None  # what the worker is allowed: it has none of the page's policy

    def do_GET(self):
        body = self.changed.get(self.path)
        if body is None:
            super().do_GET()
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/javascript")
        self.end_headers()
        self.wfile.write(body)

    def end_headers(self):
        self.send_header("Cache-Control", "no-store")
        if self.policy and self.path == "/worker.js":
            self.send_header("Content-Security-Policy", self.policy)
        super().end_headers()

    def log_message(self, *_):
        pass


class Playground(Page):
    """The page in a browser, and what a person does with it."""

    def __init__(self, url, folder):
        super().__init__(url)
        self.folder = folder

    def open(self, fragment=""):
        self.listen()
        self.driver.get("about:blank")
        self.driver.get(f"{self.url}/index.html{fragment}")
        self.until("return document.querySelector('section:not([hidden]) .status').textContent !== ''")

    def status(self):
        """The sentence of the answer that is shown."""
        return self.text(f"{SHOWN} .status")

    def details(self):
        return self.text(f"{SHOWN} .details")

    def answers(self, words):
        """Waits for a sentence with these words."""
        return self.until(f"return document.querySelector('{SHOWN} .status').textContent.includes(arguments[0])", words)

    def tab_to(self, selector):
        """Presses Tab until the focus is on what the selector means."""
        for _ in range(150):
            if self.run("return document.activeElement.matches(arguments[0])", selector):
                return True
            press(self, Keys.TAB)
        return False

    def write(self, selector, text):
        """Goes to a field with the keyboard, and replaces what it has."""
        if not self.tab_to(f"{SHOWN} {selector}"):
            return False
        self.driver.switch_to.active_element.send_keys(Keys.CONTROL, "a")
        self.driver.switch_to.active_element.send_keys(text)
        return True


def every_example_has_an_answer(page, report):
    page.open()
    report.check("it begins with the first example", page.answers("get_ticket"), page.status())
    shared = page.run("return location.hash")
    report.check("which the address names", shared.startswith("#names?name=mcp__tickets"), shared)
    seen = {}
    for part in PARTS:
        page.open(f"#{part}")
        for link in page.driver.find_elements(By.CSS_SELECTOR, f"#part-{part} .examples a"):
            if not page.run("return arguments[0].ariaCurrent", link):
                page.run("document.querySelector(arguments[0] + ' .details').replaceChildren('none yet')", SHOWN)
                page.run("arguments[0].click()", link)
                page.until("return document.querySelector(arguments[0] + ' .details').textContent !== 'none yet'", SHOWN)
            title = page.run("return document.querySelector(arguments[0] + ' .examples [aria-current]')?.textContent", SHOWN)
            seen[part, title] = page.status()
    problems = {key: status for key, status in seen.items() if "problem" in status or not status}
    report.check(f"{len(seen)} examples have an answer", len(seen) >= 25 and not problems, problems)
    for part, title, words in [
        ("names", "Two tools", "ambiguous"), ("arguments", "Broken JSON", "json-repaired"), ("masks", "A log", "3 values"),
        ("rules", "Mail to a stranger", "a person must approve"), ("rules", "Mail to a colleague", "allowed"),
        ("rules", "A way out of the folder", "denied"), ("search", "What it does", "weather.get_alerts"),
    ]:
        report.check(f"{part}, {title}: {words}", words in seen.get((part, title), ""), seen.get((part, title)))


def each_part_is_used_by_keyboard(page, report):
    page.open()
    press(page, Keys.TAB)
    report.check("the first stop skips the bar", page.run("return document.activeElement.className") == "skip")
    press(page, Keys.ENTER)
    at = page.run("return document.activeElement.id")
    report.check("to the content", at == "main" and page.answers("get_ticket"), at)
    for part, field, text, words, details in [
        ("names", "[name=name]", "mail__send", "Tool send of server mail", "mcp_mail_send"),
        ("arguments", "[name=text]", "city: Rome, days: 2", "Read as key-value", '"days": 2'),
        ("masks", "[name=text]", "mail ann@example.com", "One value is replaced", "mail [MASKED_EMAIL]"),
        ("rules", "[name=arguments]", "to: bob@example.com", "mail.send: allowed", "its condition is false"),
        ("search", "[name=query]", "join two customers", "The best is crm.merge_customers", "name: customer"),
    ]:
        page.open()
        report.check(f"{part}: the bar leads there", page.tab_to(f"nav a[href='#{part}']"))
        shown = page.run("return getComputedStyle(document.activeElement).outlineStyle")
        report.check(f"{part}: the focus can be seen", shown not in ("none", ""), shown)
        press(page, Keys.ENTER)
        page.until("return !document.getElementById(arguments[0]).hidden", f"part-{part}")
        at = page.run("return document.activeElement.id")
        report.check(f"{part}: the focus is at its heading", part == "names" or at == f"{part}-title", at)
        report.check(f"{part}: its field takes a text", page.write(field, text))
        right = page.until("return document.querySelector(arguments[0] + ' .details').textContent.includes(arguments[1])", SHOWN, details)
        report.check(f"{part}: the answer has {details}", right, page.details())
        report.check(f"{part}: {words}", words in page.status(), page.status())
        address = page.run("return location.hash")
        report.check(f"{part}: the address names no example any more", address == f"#{part}", address)
    page.open("#masks")
    page.tab_to(f"{SHOWN} [name=group][value=all]")
    press(page, Keys.SPACE)
    report.check("the space bar takes a mask away", page.answers("No mask found anything"), page.status())
    page.tab_to(f"{SHOWN} summary")
    press(page, Keys.ENTER)
    page.tab_to(f"{SHOWN} [name=pattern][value=email]")
    press(page, Keys.SPACE)
    report.check("and adds a single one", page.answers("One value is replaced"), page.status())


def an_example_of_ones_own_is_shared_by_its_address(page, report):
    page.open("#rules")
    text = 'to: "zoë+a&b=c%20#@elsewhere.example", body: "1 < 2"'
    page.write("[name=arguments]", text)
    page.until(f"return document.querySelector('{SHOWN} .details').textContent.includes('zoë')")
    page.tab_to(f"{SHOWN} .share button")
    press(page, Keys.ENTER)
    told = page.until(f"return /link/.test(document.querySelector('{SHOWN} .share [role=status]').textContent)")
    report.check("the link is made", told, page.text(f"{SHOWN} .share"))
    address, details = page.run("return location.hash"), page.details()
    page.open(address)
    field = page.run(f"return document.querySelector('{SHOWN} [name=arguments]').value")
    report.check("it brings the text back", field == text, field)
    report.check("and the answer", page.details() == details and "zoë" in details, page.details())
    page.open("#arguments?" + urlencode({"text": "a: 1"}))
    report.check("a link may leave fields out", page.answers("Read as key-value"), page.status())
    page.run("location.hash = '#search'")
    page.until("return !document.getElementById('part-search').hidden")
    page.run("history.back()")
    back = page.until("return !document.getElementById('part-arguments').hidden")
    report.check("one can go back", back and page.answers("key-value"), page.status())
    for strange in ["#", "#nowhere", "#names?%E0%A4%A", "#rules?calls=x&now=y", "#__proto__?a=b"]:
        page.open(strange)
        report.check(f"{strange} is no problem", page.status() and page.find(f"{SHOWN} form").is_displayed(), page.status())


def mistakes_are_explained(page, report):
    for fragment, words in [
        ("#names?tools=nonsense&name=a", "Line 1 of the tools"),
        ("#names?tools=a.b [sometimes]&name=a", "unknown annotation “sometimes”"),
        ("#arguments?text=a&schema={", "The schema is not JSON"),
        ("#masks?text=a&custom=(=>b", "cannot be used"),
        ("#masks?text=a&group=basic&json=on", "The text is not JSON"),
        ('#rules?name=a.b&tools=a.b&settings={"polcy":{}}', "polcy"),
        ('#rules?name=a.b&tools=a.b&settings={"rules":{"lists":[[{"name":"r","tools":["a.b"],"when":"args.","then":"deny"}]]}}',
         "rule “r” is wrong at byte"),
        ('#search?query=x&tools={"a":{"tools":7}}', "must be a list"),
    ]:
        page.open(quote(fragment, safe="#?=&"))
        report.check(words, page.answers(words) and "problem" in page.status(), page.status())
    tools = {"a": {"tools": [{"name": "b", "inputSchema": {"required": ["x"]}, "annotations": {"readOnlyHint": True}}]}}
    settings = {"policy": {"read_only": True}}
    page.open("#rules?" + urlencode({"name": "a.b", "arguments": "y: 1", "tools": json.dumps(tools), "settings": json.dumps(settings)}))
    report.check("tools may be what a server lists", page.answers("invalid-arguments"), page.status())


def shows_hostile_text_as_text(page, report):
    tools = json.dumps({"evil": [{"name": HOSTILE, "description": HOSTILE}, {"name": "b"}]})
    for fragment in [
        "#names?" + urlencode({"name": f"evil.{HOSTILE}", "tools": tools}),
        "#arguments?" + urlencode({"text": HOSTILE, "schema": json.dumps({"required": [HOSTILE]})}),
        "#masks?" + urlencode({"text": HOSTILE, "custom": "evil => <b>x</b>"}),
        "#rules?" + urlencode({"name": f"evil.{HOSTILE}", "arguments": f"a: {HOSTILE}", "tools": tools, "settings": ""}),
        "#search?" + urlencode({"query": "img", "tools": tools}),
        "#search?" + urlencode({"query": "x", "tools": HOSTILE}),
    ]:
        page.open(fragment)
        part = fragment.split("?")[0]
        made = page.run("return document.querySelectorAll('main img, main script, main b').length")
        report.check(f"{part}: markup stays text", made == 0 and page.run("return window.owned") is None, made)
        said = page.status() + page.details()
        report.check(f"{part}: hidden characters are shown", "\u202e" not in said and "\u001b" not in said, said)
    page.open("#masks?" + urlencode({"text": HOSTILE, "custom": ""}))
    report.check("the text is there", '<img src=x onerror="window.owned=1"> ⟨U+202E⟩evil' in page.details(), page.details())
    report.check("no text can become a script", page.run("""
        try { document.createElement("div").innerHTML = "<b>x</b>"; } catch (error) { return error instanceof TypeError; }
    """))
    page.listen()
    page.complaints = [entry for entry in page.complaints if "TrustedHTML" not in entry]  # of the line above


def says_which_component_runs(page, report):
    made = json.loads((page.folder / "logic/component/component.json").read_text())
    page.open()
    page.until("return document.querySelector('#component .badge') !== null")
    told = page.text("#component")
    report.check("the digest of the component is shown", made["sha256"] in told, told)
    report.check("its modules are compared", "verified" in told and f"{len(made['modules'])} modules" in told, told)
    core = "/logic/component/logic.core3.wasm"
    Site.changed[core] = (page.folder / core[1:]).read_bytes() + b"\x00\x02\x01x"  # a section that means nothing
    try:
        page.open()
        page.until("return document.querySelector('#component .badge') !== null")
        told = page.text("#component")
        report.check("another module is noticed", "differ" in told and "logic.core3.wasm" in told, told)
    finally:
        Site.changed.clear()


def a_question_that_takes_too_long_is_ended(page, report):
    page.open("#names")
    page.run("window.post = Worker.prototype.postMessage; Worker.prototype.postMessage = () => {}")
    page.write("[name=name]", "mail.send")
    report.check("it says so", page.answers("did not answer within 5 s"), page.status())
    page.run("Worker.prototype.postMessage = window.post")
    page.write("[name=name]", "mail__send")
    report.check("and another component answers", page.answers("Tool send of server mail"), page.status())


def is_for_everybody(page, report):
    """Each part is accessible at every width and in both themes."""
    for width in WIDTHS:
        page.size(width, 900)
        for theme in THEMES:
            page.prefer(theme)
            for part in PARTS:
                page.open(f"#{part}")
                page.run("for (const it of document.querySelectorAll('details')) it.open = true")
                is_accessible(page, report, f"playground, {part}, {width}, {theme}")
    page.size(1280, 900)
    page.prefer("light")


def asks_nobody_else(page, report):
    """The browser tells no test what a worker asks for, so this one is allowed nothing but the page's own server."""
    Site.policy = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; connect-src 'self'"
    try:
        for part in PARTS:
            page.open(f"#{part}")
            report.check(f"{part}: no other server is needed", page.status() and "problem" not in page.status(), page.status())
    finally:
        Site.policy = None
    is_self_contained(page, report)


def has_two_themes(page, report):
    page.open()
    light = page.brightness()
    page.prefer("dark")
    report.check("it follows the system", light > 200 and page.brightness() < 60, (light, page.brightness()))
    page.find("#theme").click()
    report.check("the button makes it light", page.brightness() > 200, page.text("#theme"))
    page.open()
    report.check("and it is remembered", page.brightness() > 200, page.text("#theme"))
    page.run("localStorage.clear()")
    page.prefer("light")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="what docs/playground/build.mjs made")
    parser.add_argument("axe", type=Path, help="axe.min.js of axe-core")
    parser.add_argument("--artifacts", type=Path, help="the folder for pictures")
    args = parser.parse_args()
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Site, directory=args.folder))
    Thread(target=server.serve_forever, daemon=True).start()
    page = Playground(f"http://127.0.0.1:{server.server_port}", args.folder)
    scenes = [every_example_has_an_answer, each_part_is_used_by_keyboard, an_example_of_ones_own_is_shared_by_its_address,
              mistakes_are_explained, shows_hostile_text_as_text, says_which_component_runs,
              a_question_that_takes_too_long_is_ended, has_two_themes, is_for_everybody, asks_nobody_else]
    try:
        return run(page, Report(page, args.artifacts, args.axe.read_text()), scenes)
    finally:
        server.shutdown()


if __name__ == "__main__":
    sys.exit(main())
