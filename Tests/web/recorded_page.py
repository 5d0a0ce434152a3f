"""A page with recorded replies. An inspector serves the page, and recording.py replaces its replies."""

import json

import recording
from selenium.webdriver.common.keys import Keys
from support import PageTest

QUIET = "topology: quiet\nprogram: nodes\nnodes:\n  fork: { machine: Fork }\n"


class RecordedPage(PageTest):
    file = QUIET

    @classmethod
    def prepare(cls):
        cls.driver.execute_cdp_cmd("Emulation.setTimezoneOverride", {"timezoneId": "UTC"})
        source = recording.INSPECTOR % json.dumps(recording.REPLIES)
        cls.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": source})

    @classmethod
    def is_ready(cls):
        return cls.script("return recorded.waiting !== null")

    def setUp(self):
        self.show_as("light", 1280)
        self.load()

    def load(self):
        self.driver.get("about:blank")
        self.driver.get(self.topology.address)
        self.script("sessionStorage.removeItem('view')")
        self.wait(self.is_ready)
        self.script("model.chosen = null; leaveEvent(); for (const one of document.querySelectorAll('main input')) {"
                    " one.value = one.type === 'search' ? '' : one.value; one.checked = false; }")
        self.give(recording.WHOLE)

    def give(self, answer):
        """Sends a reply of the inspector to the page, and waits until it is drawn."""
        # As text, because JavaScript numbers would round large integers.
        self.script("recorded.give(arguments[0])", json.dumps(answer))
        self.wait(lambda: self.script(
            "return model.cursor === arguments[0] && recorded.waiting !== null && !isDue", answer["cursor"]))
        self.drawn()

    def drawn(self):
        """Waits until the page is drawn, with the panels that are out of sight."""
        self.wait(lambda: self.script(
            "if (outdated.size && !isDue) show(); return !isDue && !outdated.size && ![...layouts.values()].includes(null)"))

    def resized(self):
        """Waits until the page is drawn for the new size of the screen."""
        self.driver.execute_async_script(
            "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(() => done()))")
        self.drawn()

    def choose_door(self):
        self.choose("door")
        self.wait(lambda: self.count("#node .eventrow") == 3 and "Dead letters" in self.text("#node"))
        self.wait(lambda: self.count("#node .statechart .wire.taken") == 1)

    def open_form(self):
        self.tab_to("epersonsHaveEntered")
        self.keys(Keys.ENTER)
        self.wait(lambda: self.focused() == "fpersons")

    def look_back(self, position):
        self.script("showInstant(model.steps[arguments[0]].time)", position)
        self.drawn()
