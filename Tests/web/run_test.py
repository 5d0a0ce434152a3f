"""Tests of the page of a recorded run. Screenshots are in .build/web."""

import os
import re
import subprocess

from support import PROGRAMS, PageTest, Topology

HOUSE = """
topology: house
program: nodes
nodes:
  door: { machine: ElevatorDoor, durability: process, parameters: { closingTime: 100 } }
  motor: { machine: ElevatorMotor }
  display: { machine: FloorDisplay }
  philosopher1: { machine: Philosopher, parameters: { thought: 300, meal: 300 } }
  fork1: { machine: Fork }
  fork2: { machine: Fork }
composites:
  seat1: { components: [philosopher1, fork1, fork2], synchronize: [take, release] }
pipes:
  - { from: door.arrivals, to: display.updates }
  - { from: door, when: closed, to: motor, send: start, on_refused: postpone, name: starts }
  - { from: motor, when: arrived, to: door, send: openButtonWasPressed, name: arrived }
  - { from: door, when: open, to: display, send: { persons: { count: $persons } }, name: persons }
"""

ENTER = '{"personsHaveEntered":{"persons":%d}}'


class Run(Topology):
    """A recorded run in which a client's event was refused and a node was killed."""

    def start(self, text, options):
        with open(os.path.join(self.folder, "house.yaml"), "w") as file:
            file.write(text)
        recording = subprocess.Popen(
            [os.path.join(PROGRAMS, "orchestrator"), "record", "house.yaml", "--out", "run"], cwd=self.folder,
            env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for line in recording.stdout:
            if "nodes running" in line:
                break
        self.record()
        self.orchestrator("down")
        recording.stdout.read()
        recording.stdout.close()
        recording.wait(timeout=60)
        self.change()
        self.inspector = subprocess.Popen(
            [os.path.join(PROGRAMS, "orchestrator"), "web", "run", *options], cwd=self.folder,
            env=self.environment, stdout=subprocess.PIPE, text=True)
        self.address = re.search(r"http\S+", self.inspector.stdout.readline()).group()

    def record(self):
        refusal = subprocess.run(
            [os.path.join(PROGRAMS, "orchestrator"), "send", "door", "doorHasLocked"], cwd=self.folder,
            env=self.environment, capture_output=True)
        assert refusal.returncode != 0, refusal
        self.orchestrator("send", "door", ENTER % 2)
        self.orchestrator("kill", "door")
        self.orchestrator("send", "door", ENTER % 3)
        self.orchestrator("send", "door", "closeButtonWasPressed")
        self.orchestrator("wait", "motor=arrived")
        self.orchestrator("wait", "door=open")

    def change(self):
        """Cuts off the last line of a log, as a kill in the middle of a write does."""
        path = os.path.join(self.folder, "run", "display.1.steps.jsonl")
        with open(path, "a") as file:
            file.write('{"step":')


class RecordedRun(PageTest):
    file = HOUSE

    @classmethod
    def make_topology(cls):
        return Run(cls.file, *cls.options)

    @classmethod
    def is_ready(cls):
        return cls.script("return model.latest !== null && document.querySelectorAll('#nodes tr').length > 0 && !isDue")

    def setUp(self):
        self.script("leaveEvent(); showInstant(null)")
        self.wait(lambda: self.text("#moment") == "end" and self.script("return !isDue"))

    def look_at(self, condition):
        """Shows the instant of the first step that satisfies a condition in JavaScript."""
        self.script("showInstant(model.steps.find((step) => " + condition + ").time)")
        self.wait(lambda: self.text("#moment") != "end" and self.script("return !isDue"))

    def test_the_page_shows_the_graph_and_the_states_at_an_instant(self):
        self.assertRegex(self.text("#verdict"), r"^Recorded Recorded run of \d{4}-\d\d-\d\d \d\d:\d\d:\d\d, .* from the directory run\.")
        self.assertEqual(self.text("#phase"), "recorded run")
        self.wait(lambda: self.count("#graph g[role=button]") == 7)
        self.wait(lambda: self.count("#graph .frame") == 1)
        self.assertEqual(self.cell("door", 1), "open(persons: 0)")
        self.assertEqual(self.cell("door", 2), "ended")
        self.look_at("step.node === 'door' && step.state && step.state.open && step.state.open.persons === 5")
        self.assertEqual(self.cell("door", 1), "open(persons: 5)")
        self.assertEqual(self.cell("door", 2), "running")
        self.assertEqual(self.cell("door", 5), "1")
        self.look_at("step.node === 'door' && step.state && step.state.open && step.state.open.persons === 2")
        self.assertEqual(self.cell("door", 1), "open(persons: 2)")
        self.assertEqual(self.cell("door", 5), "0")

    def test_the_refused_event_and_the_kill_are_in_the_charts(self):
        labels = "return [...document.querySelectorAll('#rows .label')].map((one) => one.textContent).join('\\n')"
        self.script("choose('door'); if (!byId('only').checked) byId('only').click()")
        self.wait(lambda: "doorHasLocked refused" in self.script(labels))
        self.assertIn("began again: running", self.script(labels))
        self.assertEqual(self.script(
            "return timelineLanes().find((lane) => lane.node.name === 'door').marks.map((one) => one.kind)"),
            ["refused", "ended", "started", "ended"])
        self.script("byId('only').click()")

    def test_an_event_is_followed_across_nodes(self):
        self.script("follow(model.steps.find((step) => step.node === 'motor' && step.source))")
        self.wait(lambda: self.text("#story") != "")
        nodes = self.script("return [...followed.nodes].sort()")
        self.assertEqual(nodes, ["display", "door", "motor"])
        self.keys("[")
        self.wait(lambda: self.script("return followed.at.node") == "door")
        # The steps of a synchronized event are one group.
        self.script("follow(model.steps.find((step) => step.transaction))")
        self.wait(lambda: self.script("return followed.nodes.size >= 2"))
        # The counts of a pipe include only the steps until the shown instant.
        self.script("leaveEvent()")
        pipe = ("return [...document.querySelectorAll('#pipes tr')].find((row) => row.cells[0].textContent === 'starts')"
                ".cells[2].textContent")
        self.wait(lambda: self.script(pipe) == "1")
        counts = self.script("return [...document.querySelectorAll('#pipes tr')].map((row) =>"
                             " [row.cells[0].textContent, Number(row.cells[2].textContent), Number(row.cells[3].textContent)])")
        for name, sent, applied in counts:
            self.assertGreaterEqual(sent, applied, name)
        # The first of these events was sent on the entry into the initial state.
        self.assertEqual([sent for name, sent, _ in counts if name == "persons"], [4])
        self.look_at("step.node === 'door'")
        self.assertEqual(self.script(pipe), "0")

    def test_nothing_operates_the_topology(self):
        self.script("choose('door')")
        self.wait(lambda: self.text("#h-node") == "door" and self.count("#node .statechart .wire.taken") > 0)
        self.wait(lambda: self.count("#node .statechart .wire.possible") > 0)
        self.assertEqual(self.count("#node .buttons button, #node button.event, #node form"), 0)
        for hidden in ["freeze", "minute", "logbox"]:
            self.assertEqual(self.script(
                "return document.getElementById(arguments[0]).getClientRects().length", hidden), 0, hidden)
        for path, body in [("/api/send", {"node": "door", "event": "closeButtonWasPressed"}),
                           ("/api/control", {"node": "door", "action": "kill"})]:
            answer = self.driver.execute_async_script(
                "const done = arguments[2]; ask(arguments[0], arguments[1]).then(done, (error) => done(error.message))",
                path, body)
            self.assertIn("recorded run", answer)
        self.assertEqual([entry for entry in self.driver.get_log("browser") if entry["level"] == "SEVERE" and
                          "409" not in entry["message"]], [])

    def test_the_incomplete_line_is_named(self):
        self.assertIn("left out as incomplete: display.1.steps.jsonl", self.text("#problems"))

    def test_the_run_is_played_from_its_beginning_to_its_end(self):
        self.script("document.getElementById('speed').value = '10'; document.getElementById('play').click()")
        self.wait(lambda: self.text("#moment") != "end")
        self.wait(lambda: self.text("#moment") == "end" and self.text("#play") == "Play")

    def test_pictures(self):
        self.script("choose('door')")
        self.look_at("step.node === 'door' && step.state && step.state.open && step.state.open.persons === 5")
        for scheme in ["light", "dark"]:
            for width in [1280, 400]:
                self.show_as(scheme, width, 1000)
                self.wait(lambda: self.script("return !isDue"))
                height = self.script("return document.documentElement.scrollHeight")
                self.show_as(scheme, width, height)
                self.script("show()")
                self.wait(lambda: self.script("return !isDue && ![...layouts.values()].includes(null)"))
                self.assertLessEqual(self.script("return document.documentElement.scrollWidth"), width)
                self.picture(f"run-{scheme}-{width}")
        self.show_as("light", 1280, 1000)


del PageTest
