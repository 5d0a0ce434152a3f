"""The inspector's page in Chromium, as people use it: 'make test-web' calls it.

Debian's chromium, chromium-driver and python3-selenium are needed. Screenshots stay in .build/web.
"""

import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
PROGRAMS = os.environ.get("PROGRAMS", os.path.join(ROOT, ".build", "debug"))
PICTURES = os.path.join(ROOT, ".build", "web")
ATTACK = "<img src=x onerror=\"document.title='taken'\">"

HOUSE = """
topology: house
program: nodes
nodes:
  door: { machine: ElevatorDoor, durability: process, restart: { policy: on-failure } }
  motor: { machine: ElevatorMotor }
  display: { machine: FloorDisplay }
  passengers: { machine: Passengers }
  philosopher1: { machine: Philosopher, parameters: { thought: 300, meal: 300 } }
  fork1: { machine: Fork }
  fork2: { machine: Fork }
  sign: { constant: { notice: { text: %s } } }
composites:
  seat1: { components: [philosopher1, fork1, fork2], synchronize: [take, release] }
pipes:
  - { from: door.arrivals, to: display.updates }
  - from: passengers
    when: boarding
    to: door
    send: { personsHaveEntered: { persons: $persons } }
    on_refused: postpone
  - { from: passengers, when: riding, to: door, send: closeButtonWasPressed, on_refused: postpone }
  - { from: door, when: closed, to: motor, send: start, on_refused: postpone }
  - { from: motor, when: arrived, to: door, send: openButtonWasPressed }
  - { from: motor, when: arrived, to: passengers, send: arrived }
""" % ("'" + ATTACK.replace("'", "''") + "'")


class Topology:
    """A topology in a folder of its own, and an inspector that serves its page."""

    def __init__(self, text, *options):
        self.folder = tempfile.mkdtemp(prefix="prw-", dir="/tmp")
        self.environment = dict(os.environ, PIPERUNTIME_ROOT=self.folder, NO_COLOR="1")
        with open(os.path.join(self.folder, "house.yaml"), "w") as file:
            file.write(text)
        self.orchestrator("up", "--wait", "house.yaml")
        self.inspector = subprocess.Popen(
            [os.path.join(PROGRAMS, "orchestrator"), "web", *options], cwd=self.folder,
            env=self.environment, stdout=subprocess.PIPE, text=True)
        self.address = re.search(r"http\S+", self.inspector.stdout.readline()).group()

    def orchestrator(self, *words):
        return subprocess.run(
            [os.path.join(PROGRAMS, "orchestrator"), *words], cwd=self.folder,
            env=self.environment, check=True, stdout=subprocess.PIPE, text=True).stdout

    def end(self):
        self.inspector.send_signal(signal.SIGTERM)
        self.inspector.wait()
        self.inspector.stdout.close()
        subprocess.run(
            [os.path.join(PROGRAMS, "orchestrator"), "down"], cwd=self.folder,
            env=self.environment, capture_output=True)
        shutil.rmtree(self.folder, ignore_errors=True)


def browser(*arguments):
    options = webdriver.ChromeOptions()
    profile = tempfile.mkdtemp(prefix="prw-chromium-", dir="/tmp")
    for argument in ["--headless=new", "--disable-gpu", "--no-sandbox",
                     "--user-data-dir=" + profile, *arguments]:
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(service=Service("/usr/bin/chromedriver"), options=options)
    driver.profile = profile
    return driver


class PageTest(unittest.TestCase):
    options = ()

    @classmethod
    def setUpClass(cls):
        os.makedirs(PICTURES, exist_ok=True)
        cls.topology = Topology(HOUSE, *cls.options)
        cls.driver = browser("--window-size=1280,1000")
        cls.driver.get(cls.topology.address)
        cls.wait(lambda: cls.cell("fork2", 1))

    @classmethod
    def tearDownClass(cls):
        cls.driver.quit()
        shutil.rmtree(cls.driver.profile, ignore_errors=True)
        cls.topology.end()

    # What is on the page

    @classmethod
    def wait(cls, condition):
        """Waits until it holds. Elements may be drawn anew at any time: what is looked at, scripts read."""
        return WebDriverWait(cls.driver, 60, poll_frequency=0.05).until(lambda _: condition())

    @classmethod
    def script(cls, text, *values):
        return cls.driver.execute_script(text, *values)

    @classmethod
    def cell(cls, node, column):
        return cls.script(
            "for (const row of document.querySelectorAll('#nodes tr'))"
            " if (row.cells[0].textContent === arguments[0]) return row.cells[arguments[1]].textContent;"
            " return null", node, column)

    def text(self, selector):
        return self.script(
            "const found = document.querySelector(arguments[0]); return found ? found.textContent : ''",
            selector)

    def count(self, selector):
        return self.script("return document.querySelectorAll(arguments[0]).length", selector)

    def choose(self, node):
        self.wait(lambda: self.script(
            "const button = document.querySelector(`#nodes [data-key=\"n${arguments[0]}\"]`);"
            " if (button) button.click(); return button !== null", node))
        self.wait(lambda: self.text("#h-node") == node)

    def keys(self, *keys):
        # To whatever has the focus: an element may be drawn anew between a look at it and the key.
        for key in keys:
            ActionChains(self.driver).send_keys(key).perform()

    def focused(self):
        return self.script(
            "const one = document.activeElement;"
            " return one.id || one.getAttribute('data-key') || one.getAttribute('aria-label') || one.tagName")

    def tab_to(self, wanted):
        for _ in range(60):
            if self.focused() == wanted:
                return
            self.keys(Keys.TAB)
        self.fail(f"the keyboard does not reach {wanted}")

    def picture(self, name):
        self.driver.save_screenshot(os.path.join(PICTURES, name + ".png"))


class Watching(PageTest):
    def test_panels(self):
        self.choose("door")
        self.assertEqual(self.cell("fork1", 2), "running")
        self.wait(lambda: self.count("#pipes tr") == 6)
        self.wait(lambda: self.count("#graph g[role=button]") == 9)
        self.wait(lambda: self.count("#graph .member") == 3)
        self.wait(lambda: self.count("#chart circle") > 5)
        self.wait(lambda: self.count("#chart .bar") > 0)
        self.wait(lambda: "✓" in self.text("#node") and "✗" in self.text("#node"))
        self.wait(lambda: "●" in self.text("#node svg"))
        self.wait(lambda: "▶" in self.text("#node svg"))
        self.assertEqual(
            [entry for entry in self.driver.get_log("browser") if entry["level"] == "SEVERE"], [])
        foreign = self.script(
            "return performance.getEntriesByType('resource').map((one) => new URL(one.name).origin)"
            ".filter((origin) => origin !== location.origin)")
        self.assertEqual(foreign, [])
        self.assertNotIn("token", self.driver.current_url)

    def test_states_are_text(self):
        self.wait(lambda: "<img src=x onerror=" in (self.cell("sign", 1) or ""))
        self.choose("sign")
        self.wait(lambda: "<img src=x onerror=" in self.text("#node"))
        self.assertEqual(self.count("img"), 0)
        self.assertNotEqual(self.driver.title, "taken")

    def test_keyboard(self):
        self.addCleanup(
            self.script,
            "const search = document.getElementById('search'); search.value = '';"
            " search.dispatchEvent(new Event('input'))")
        self.script("document.body.focus(); document.activeElement.blur()")
        self.tab_to("slider")
        self.tab_to("search")
        self.keys("disp")
        self.wait(lambda: self.count("#nodes tr") == 1)
        self.tab_to("ndisplay")
        self.keys(Keys.ENTER)
        self.wait(lambda: self.text("#h-node") == "display")
        self.wait(lambda: self.count("#node form") == 1)
        self.tab_to("choice")
        self.keys("refresh")
        self.tab_to("send")
        self.keys(Keys.ENTER)
        self.wait(lambda: "refresh: moved" in self.text("#said"))
        # What has the focus keeps it, however often the page is drawn.
        self.tab_to("gmotor")
        version = self.text("#node")
        self.wait(lambda: self.text("#node") != version)
        self.assertEqual(self.focused(), "gmotor")
        self.keys(Keys.ENTER)
        self.wait(lambda: self.text("#h-node") == "motor")

    def test_a_killed_node_comes_back(self):
        self.choose("door")
        version = self.wait(lambda: int(re.search(r"version (\d+)", self.text("#node")).group(1)))
        self.topology.orchestrator("kill", "door")
        self.wait(lambda: self.cell("door", 5) == "1" and self.cell("door", 2) == "running")
        self.wait(lambda: "began again" in self.text("#chart"))
        # It goes on where it was, and does not begin with version 0.
        self.wait(lambda: int(re.search(r"version (\d+)", self.text("#node")).group(1)) >= version)

    def test_time(self):
        self.wait(lambda: self.count("#chart circle") > 20)
        rows = "return document.querySelectorAll('#chart circle').length"
        self.script(
            "const slider = document.getElementById('slider'); slider.value = 1;"
            " slider.dispatchEvent(new Event('input'))")
        self.wait(lambda: self.text("#moment") != "now")
        self.wait(lambda: self.script(rows) < 10)
        then = self.cell("philosopher1", 1)
        moment = self.text("#moment")
        # Ten answers of the inspector later all is as it was.
        end = time.monotonic() + 1
        while time.monotonic() < end:
            self.assertEqual(self.cell("philosopher1", 1), then)
            self.assertEqual(self.text("#moment"), moment)
        self.driver.find_element(By.ID, "live").click()
        self.wait(lambda: self.text("#moment") == "now")
        self.wait(lambda: self.script(rows) > 20)

    def test_pictures(self):
        self.choose("door")
        self.wait(lambda: "▶" in self.text("#node svg"))
        for scheme in ["light", "dark"]:
            self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {
                "features": [{"name": "prefers-color-scheme", "value": scheme}]})
            for width in [1280, 400]:
                self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
                    "width": width, "height": 2000, "deviceScaleFactor": 1, "mobile": False})
                # Nothing is wider than the screen.
                self.assertLessEqual(
                    self.script("return document.documentElement.scrollWidth"), width)
                self.picture(f"{scheme}-{width}")
        self.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


class ReadingOnly(PageTest):
    options = ("--read-only",)

    def test_nothing_is_sent(self):
        self.choose("door")
        self.wait(lambda: "✗" in self.text("#node"))
        self.assertEqual(self.count("form"), 0)
        self.assertIn("read only", self.text("#phase"))
        status = self.driver.execute_async_script(
            "const done = arguments[0]; fetch('/api/send', {method: 'POST', headers: {"
            "Authorization: 'Bearer ' + sessionStorage.getItem('token'),"
            " 'Content-Type': 'application/json'}, body: '{\"node\":\"door\",\"event\":\"x\"}'})"
            ".then((answer) => done(answer.status))")
        self.assertEqual(status, 403)

    def test_without_the_token(self):
        self.driver.switch_to.new_window("tab")
        self.driver.get(self.topology.address.split("#")[0])
        self.wait(lambda: "token" in self.text("#link"))
        self.assertEqual(self.count("#nodes tr"), 0)
        self.driver.close()
        self.driver.switch_to.window(self.driver.window_handles[0])

    def test_the_end(self):
        self.topology.orchestrator("down")
        self.wait(lambda: self.text("#phase").startswith("down"))
        self.topology.orchestrator("up", "--wait", "house.yaml")
        self.wait(lambda: self.cell("door", 2) == "running")


if __name__ == "__main__":
    unittest.main(verbosity=2)
