"""A page in a real browser, and what the tests of this folder check of any page."""

import json
import shutil
import traceback
from contextlib import suppress
from urllib.parse import urlsplit

from selenium import webdriver
from selenium.common.exceptions import TimeoutException
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

LIMIT = 15  # seconds, for anything that is waited for
THEMES = ["light", "dark"]
WIDTHS = [360, 768, 1440]


class Page:
    """A browser with one page; unless it is `watched`, `listen` cannot be used."""

    def __init__(self, url, watched=True):
        self.url = url.rstrip("/")
        options = webdriver.ChromeOptions()
        options.binary_location = shutil.which("chromium") or "/usr/bin/chromium"
        for argument in ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]:
            options.add_argument(argument)
        if watched:
            options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        service = webdriver.ChromeService(shutil.which("chromedriver") or "/usr/bin/chromedriver")
        self.driver = webdriver.Chrome(options=options, service=service)
        self.driver.set_script_timeout(120)
        self.requested = []
        self.complaints = []
        self.size(1280, 900)

    def until(self, script, *arguments, limit=LIMIT):
        """Waits until the script is true, and says what it was in the end."""
        with suppress(TimeoutException):
            return WebDriverWait(self.driver, limit, 0.05).until(lambda _: self.run(script, *arguments))
        return None

    def run(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def find(self, css):
        return self.driver.find_element(By.CSS_SELECTOR, css)

    def text(self, css):
        return self.run("return document.querySelector(arguments[0])?.textContent ?? ''", css)

    def size(self, width, height):
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def prefer(self, scheme):
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})

    def brightness(self):
        """Of the background, from 0 to 255."""
        colour = self.run("return getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)")
        return sum(colour[:3]) / 3

    def listen(self):
        """Collects what the browser asked for and complained about; it forgets what it told once."""
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                self.requested.append(message["params"]["request"]["url"])
        for entry in self.driver.get_log("browser"):
            # That a token is wanted is no fault of the page, but the browser logs it as one.
            if entry["level"] == "SEVERE" and "status of 401" not in entry["message"]:
                self.complaints.append(entry["message"])


class Report:
    """The lines that are printed, and a picture of the page for the first that is wrong in a scene."""

    def __init__(self, page, artifacts, axe):
        self.page, self.artifacts, self.axe = page, artifacts, axe
        self.passed = self.failed = 0
        self.scene, self.pictured = None, None

    def check(self, name, right, detail=""):
        if right:
            self.passed += 1
            print(f"ok   {name}", flush=True)
            return
        self.failed += 1
        print(f"FAIL {name}", flush=True)
        if str(detail).strip():
            print("     " + str(detail).strip().replace("\n", "\n     "), flush=True)
        if self.artifacts and self.pictured != self.scene:
            self.artifacts.mkdir(parents=True, exist_ok=True)
            self.page.driver.save_screenshot(str(self.artifacts / f"{self.scene}.png"))
            self.pictured = self.scene


def is_self_contained(page, report):
    page.listen()
    place = urlsplit(page.url)
    foreign = [url for url in page.requested
               if urlsplit(url).scheme != "data" and urlsplit(url).netloc != place.netloc and url != "about:blank"]
    report.check("nothing is fetched from elsewhere", foreign == [], "\n".join(foreign[:5]))
    report.check("the console has no errors", page.complaints == [], "\n".join(page.complaints[:5]))


def is_accessible(page, report, scene):
    """Checks that nothing is wider than the screen, and that axe-core finds nothing that keeps people out."""
    wide, width = page.run("return [document.documentElement.scrollWidth, innerWidth]")
    report.check(f"{scene}: it fits", wide <= width, f"{wide} wide")
    page.run(report.axe)
    found = page.driver.execute_async_script("""
        const done = arguments[0];
        axe.run({resultTypes: ["violations"]}).then(({violations}) => done(violations.map(
          ({id, help, nodes}) => `${id}: ${help}: ${nodes.map(node => node.html).join(" | ")}`)), error => done([String(error)]));
    """)
    report.check(f"{scene}: axe finds nothing", found == [], "\n".join(found))
    if report.artifacts:
        report.artifacts.mkdir(parents=True, exist_ok=True)
        page.driver.save_screenshot(str(report.artifacts / f"{scene}.png".replace(", ", "-")))


def press(page, key):
    webdriver.ActionChains(page.driver).send_keys(key).perform()


def run(page, report, scenes):
    """Runs the scenes, and returns the exit code."""
    try:
        for scene in scenes:
            report.scene = scene.__name__
            try:
                scene(page, report)
            except Exception:  # one broken scene must not hide what the others find
                report.check(f"{report.scene} runs to its end", False, traceback.format_exc())
    finally:
        page.driver.quit()
    print(f"{report.passed} ok, {report.failed} failed")
    return 1 if report.failed else 0
