"""The shared parts of the page's tests: a topology, an inspector, and a browser."""

import json
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


class Topology:
    """A topology in a temporary directory, and an inspector that serves its page."""

    def __init__(self, text, *options):
        self.folder = tempfile.mkdtemp(prefix="prw-", dir="/tmp")
        self.environment = dict(os.environ, PIPERUNTIME_ROOT=self.folder, NO_COLOR="1")
        self.inspector = None
        try:
            self.start(text, options)
        except BaseException:
            self.end()
            raise

    def start(self, text, options):
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

    def process(self):
        """Returns the process id of the orchestrator."""
        return json.loads(self.orchestrator("status", "-o", "json"))["pid"]

    def end(self):
        if self.inspector:
            self.inspector.send_signal(signal.SIGTERM)
            try:
                self.inspector.wait(timeout=60)
            except subprocess.TimeoutExpired:
                self.inspector.kill()
                self.inspector.wait()
            self.inspector.stdout.close()
        subprocess.run(
            [os.path.join(PROGRAMS, "orchestrator"), "down"], cwd=self.folder,
            env=self.environment, capture_output=True)
        shutil.rmtree(self.folder, ignore_errors=True)


def browser(*arguments):
    options = webdriver.ChromeOptions()
    profile = tempfile.mkdtemp(prefix="prw-chromium-", dir="/tmp")
    for argument in ["--headless=new", "--disable-gpu", "--no-sandbox", "--disable-dev-shm-usage",
                     "--user-data-dir=" + profile, *arguments]:
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(service=Service("/usr/bin/chromedriver"), options=options)
    driver.profile = profile
    return driver


class PageTest(unittest.TestCase):
    file = ""
    options = ()

    @classmethod
    def setUpClass(cls):
        os.makedirs(PICTURES, exist_ok=True)
        cls.topology = cls.make_topology()
        cls.addClassCleanup(cls.topology.end)
        cls.driver = browser("--window-size=1280,1000")
        cls.addClassCleanup(cls.end_browser)
        cls.prepare()
        cls.driver.get(cls.topology.address)
        cls.wait(cls.is_ready)

    @classmethod
    def make_topology(cls):
        return Topology(cls.file, *cls.options)

    @classmethod
    def prepare(cls):
        """Prepares the browser before the page is loaded."""

    @classmethod
    def is_ready(cls):
        return cls.script("return document.querySelectorAll('#nodes tr').length > 0")

    @classmethod
    def end_browser(cls):
        cls.driver.quit()
        shutil.rmtree(cls.driver.profile, ignore_errors=True)

    # The contents of the page

    @classmethod
    def wait(cls, condition):
        """Waits until a condition is true. Read elements by scripts: they may be replaced at any time."""
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
        # Send keys to the focused element: another element may be replaced before the key arrives.
        for key in keys:
            ActionChains(self.driver).send_keys(key).perform()

    def focused(self):
        return self.script(
            "const one = document.activeElement;"
            " return one.id || one.getAttribute('data-key') || one.getAttribute('aria-label') || one.tagName")

    def tab_to(self, wanted):
        for _ in range(150):
            if self.focused() == wanted:
                return
            self.keys(Keys.TAB)
        self.fail(f"the keyboard does not reach {wanted}")

    def back_tab_to(self, wanted):
        for _ in range(150):
            if self.focused() == wanted:
                return
            ActionChains(self.driver).key_down(Keys.SHIFT).send_keys(Keys.TAB).key_up(Keys.SHIFT).perform()
        self.fail(f"the keyboard does not reach {wanted} backwards")

    def fill(self, name, text):
        self.script(
            "const input = document.getElementById(arguments[0]); input.value = arguments[1];"
            " input.dispatchEvent(new Event('input'))", name, text)

    def show_as(self, scheme, width, height=1000, *features):
        """Emulates a light or dark color scheme and a screen of this size."""
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {
            "features": [{"name": "prefers-color-scheme", "value": scheme}, *features]})
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": False})

    def picture(self, name):
        path = os.path.join(PICTURES, name + ".png")
        self.driver.save_screenshot(path)
        return path
