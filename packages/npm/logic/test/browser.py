"""Uses the library in Chromium under a strict policy: `browser.py NODE_MODULES`, with selenium as `tests/browser/install` has it.

The page may run the scripts of its own server and compile WebAssembly, and nothing else: no text becomes a script.
"""

import json
import shutil
import sys
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

from selenium import webdriver
from selenium.webdriver.support.ui import WebDriverWait

LIMIT = 60  # seconds, for the whole page
POLICY = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; connect-src 'self'"
PAGE = '<!doctype html><title>page</title><script type="module" src="/page.mjs"></script>'
SCRIPT = """
import { Failed, Gate, Logic } from '/@toolgate/logic/index.mjs';

class Adder {
  async open() {}
  async tools() { return [{ name: 'add', annotations: {} }, { name: 'break', annotations: {} }]; }
  async request(method, params) {
    const { name, arguments: args } = JSON.parse(params);
    if (name === 'break') throw new Failed('closed', undefined, true);
    return JSON.stringify({ content: [{ type: 'text', text: String(args.a + args.b) }] });
  }
}

const seen = {};
try {
  const logic = await Logic.load();
  seen.parsed = logic.parseArguments('a: 1, b: 2').arguments;
  seen.masked = logic.mask('mail me@example.com', { patterns: ['email'] });
  const gate = new Gate(logic, { own: new Adder() }, { settings: { maxResultBytes: 4n, spill: true } });
  seen.tools = (await gate.tools()).map(({ name }) => name);
  const add = await gate.call('own__add', 'a: 1, b: 2');
  seen.call = [add.code, add.text];
  seen.long = (await gate.call('own__add', { a: 'long ', b: 'text' })).truncated;
  seen.broken = (await gate.call('own__break')).code;
  try { void gate.settings.policy.readonly; } catch (error) { seen.refused = error.message; }
  try { new Function('return 1')(); seen.script = 'ran'; } catch { seen.script = 'blocked'; }
} catch (error) {
  seen.error = `${error.name}: ${error.message}`;
}
document.title = JSON.stringify(seen);
"""
EXPECTED = {
    "parsed": '{"a":1,"b":2}',
    "tools": ["own__add", "own__break"],
    "call": ["ok", "3"],
    "long": True,
    "broken": "outcome-unknown",
    "script": "blocked",
}


class Site(SimpleHTTPRequestHandler):
    """The page, its script, and the files of the package."""

    extensions_map = SimpleHTTPRequestHandler.extensions_map | {".mjs": "text/javascript", ".wasm": "application/wasm"}

    def do_GET(self):
        own = {"/": ("text/html", PAGE), "/page.mjs": ("text/javascript", SCRIPT)}.get(self.path)
        if own is None:
            super().do_GET()
            return
        body = own[1].encode()
        self.send_response(200)
        self.send_header("Content-Type", own[0])
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def end_headers(self):
        self.send_header("Content-Security-Policy", POLICY)
        super().end_headers()

    def log_message(self, *_):
        pass


def main():
    site = ThreadingHTTPServer(("127.0.0.1", 0), partial(Site, directory=sys.argv[1]))
    Thread(target=site.serve_forever, daemon=True).start()
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for argument in ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]:
        options.add_argument(argument)
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))
    try:
        driver.get(f"http://127.0.0.1:{site.server_port}/")
        WebDriverWait(driver, LIMIT).until(lambda page: page.title.startswith("{"))
        seen = json.loads(driver.title)
    finally:
        driver.quit()
        site.shutdown()
    wrong = {key: seen.get(key) for key, value in EXPECTED.items() if seen.get(key) != value}
    if "error" in seen or wrong or "me@" in seen["masked"] or "no field readonly" not in seen.get("refused", ""):
        sys.exit(f"not as expected: {json.dumps(wrong)} of {json.dumps(seen)}")
    print(f"in Chromium, under {POLICY!r}: {json.dumps(seen)}")


if __name__ == "__main__":
    main()
