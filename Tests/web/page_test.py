"""Tests of the page with a running topology. Screenshots are in .build/web."""

import os
import re
import signal
import socket
import time
import urllib.parse

from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from support import PageTest

ATTACK = "<img src=x onerror=\"document.title='taken'\">"

HOUSE = """
topology: house
program: nodes
nodes:
  door: { machine: ElevatorDoor, durability: process, restart: { policy: on-failure } }
  motor: { machine: ElevatorMotor }
  shed: { machine: ElevatorDoor, durability: process, restart: { policy: on-failure } }
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


class Watching(PageTest):
    file = HOUSE

    @classmethod
    def is_ready(cls):
        return cls.cell("fork2", 1)

    def test_all_panels_show_the_topology(self):
        self.choose("door")
        self.assertEqual(self.cell("fork1", 2), "running")
        self.wait(lambda: self.count("#pipes tr") == 6)
        self.wait(lambda: self.count("#graph g[role=button]") == 10)
        self.wait(lambda: self.count("#graph .frame") == 1)
        self.wait(lambda: self.count("#chart circle") > 5)
        self.wait(lambda: self.count("#chart .bar") > 0)
        self.wait(lambda: "✓" in self.text("#node") and "✗" in self.text("#node"))
        self.wait(lambda: "●" in self.text("#node .statechart"))
        self.wait(lambda: self.count("#node .statechart .wire.taken") == 1)
        self.wait(lambda: self.count("#node .statechart .wire.possible") > 0)
        self.assertEqual(
            [entry for entry in self.driver.get_log("browser") if entry["level"] == "SEVERE"], [])
        foreign = self.script(
            "return performance.getEntriesByType('resource').map((one) => new URL(one.name).origin)"
            ".filter((origin) => origin !== location.origin)")
        self.assertEqual(foreign, [])
        self.assertNotIn("token", self.driver.current_url)

    def test_states_are_shown_as_text_and_not_as_html(self):
        self.wait(lambda: "<img src=x onerror=" in (self.cell("sign", 1) or ""))
        self.choose("sign")
        self.wait(lambda: "<img src=x onerror=" in self.text("#node"))
        self.assertEqual(self.count("img"), 0)
        self.assertNotEqual(self.driver.title, "taken")

    def test_the_keyboard_reaches_all_controls(self):
        self.addCleanup(self.fill, "search", "")
        self.addCleanup(self.fill, "grep", "")
        self.script("document.body.focus(); document.activeElement.blur()")
        self.tab_to("play")
        self.tab_to("search")
        self.keys("disp")
        self.wait(lambda: self.count("#nodes tr") == 1)
        self.tab_to("ndisplay")
        self.keys(Keys.ENTER)
        self.wait(lambda: self.text("#h-node") == "display")
        self.wait(lambda: self.count("#node .event") > 0)
        self.tab_to("erefresh")
        self.keys(Keys.ENTER)
        self.wait(lambda: "refresh: accepted" in self.text("#said"))
        # The focused element keeps the focus, however often the page is drawn.
        self.back_tab_to("gmotor")
        version = self.text("#node")
        self.wait(lambda: self.text("#node") != version)
        self.assertEqual(self.focused(), "gmotor")
        self.keys(Keys.ENTER)
        self.wait(lambda: self.text("#h-node") == "motor")
        # Freezes an instant, and moves back step by step.
        self.tab_to("freeze")
        self.keys(Keys.SPACE)
        self.wait(lambda: self.text("#moment") != "now")
        self.back_tab_to("slider")
        before = self.script("return model.at")
        self.keys(Keys.ARROW_LEFT, Keys.ARROW_LEFT)
        self.wait(lambda: self.script("return model.at < arguments[0] && !isDue"
                                      " && model.steps.some((step) => step.time === model.at)", before))
        frozen = self.text("#chart")
        self.back_tab_to("live")
        self.assertEqual(self.text("#chart"), frozen)
        self.keys(Keys.ENTER)
        self.wait(lambda: self.text("#moment") == "now")
        # Filters the logs, scrolls back, and follows the logs again.
        self.tab_to("grep")
        self.keys("spawned")
        self.wait(lambda: self.script(
            "const rows = [...document.querySelectorAll('#logs li')];"
            " return rows.length > 3 && rows.every((row) => row.textContent.includes('spawned'))"))
        self.keys(Keys.ESCAPE)
        self.tab_to("mine")
        self.keys(Keys.SPACE)
        self.wait(lambda: self.script(
            "const names = [...document.querySelectorAll('#logs b')].map((one) => one.textContent);"
            " return names.length > 1 && names.every((one) => one === 'motor')"))
        self.keys(Keys.SPACE)
        self.wait(lambda: self.script(
            "const box = document.getElementById('logbox'); return box.scrollHeight > box.clientHeight + 60"))
        self.tab_to("logbox")

        def is_at_top():
            # Scrolling is gradual, and a new line may interrupt it.
            self.keys(Keys.HOME)
            return self.script("return document.getElementById('logbox').scrollTop === 0")
        self.wait(is_at_top)
        self.wait(lambda: not self.script("return document.getElementById('newest').disabled"))
        self.back_tab_to("newest")
        self.keys(Keys.ENTER)
        self.wait(lambda: self.script("return document.getElementById('newest').disabled"))

    def test_a_killed_node_restarts_in_the_same_state(self):
        self.choose("shed")
        self.wait(lambda: self.count("#node .event") > 0)
        self.tab_to("epersonsHaveEntered")
        self.keys(Keys.ENTER)
        self.wait(lambda: self.focused() == "fpersons")
        self.keys("7", Keys.ENTER)
        self.wait(lambda: self.cell("shed", 1) == "open(persons: 7)")
        self.wait(lambda: "version 1" in self.text("#node"))
        pid = re.search(r"pid (\d+)", self.text("#node")).group(1)
        self.topology.orchestrator("kill", "shed")
        self.wait(lambda: self.cell("shed", 5) == "1" and self.cell("shed", 2) == "running")
        self.wait(lambda: "pid" in self.text("#node") and f"pid {pid} " not in self.text("#node") + " ")
        self.assertEqual(self.cell("shed", 1), "open(persons: 7)")
        self.assertIn("version 1 ", self.text("#node"))
        self.wait(lambda: self.script(
            "return model.steps.some((step) => step.is === 'life' && step.node === 'shed' && step.again)"))

    def test_unread_connections_do_not_fill_the_inspectors_memory(self):
        address = urllib.parse.urlsplit(self.topology.address)
        token = address.fragment.split("=")[1]

        def memory():
            with open(f"/proc/{self.topology.inspector.pid}/status") as file:
                return int(re.search(r"VmRSS:\s+(\d+)", file.read()).group(1))

        def cursor():
            return self.script("return Number(model.cursor)")
        before = memory()
        for _ in range(4):
            client = socket.socket()
            self.addCleanup(client.close)
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            client.connect((address.hostname, address.port))
            client.sendall(f"GET /api/changes?after=0 HTTP/1.1\r\nHost: {address.netloc}\r\n"
                           f"Authorization: Bearer {token}\r\n\r\n".encode())
        # While the page receives a hundred updates, the inspector keeps none for the clients that do not read.
        first = cursor()
        self.wait(lambda: cursor() > first + 100)
        self.assertLess(memory() - before, 32 << 10)

    def test_effects_are_drawn_as_causes_of_steps(self):
        # The passengers' steps are a chain of effects: each arrow begins at the step that started the effect.
        self.choose("passengers")
        self.wait(lambda: self.count("#chart .effect") > 0)
        self.wait(lambda: "an effect of version" in self.text("#chart .effect title"))

    def test_logs_are_filtered_and_follow_the_shown_instant(self):
        self.choose("door")
        self.addCleanup(self.fill, "grep", "")
        self.addCleanup(
            self.script, "const mine = document.getElementById('mine'); if (mine.checked) mine.click()")
        self.wait(lambda: self.count("#logs li") > 5)
        before = self.count("#logs .note")
        self.topology.orchestrator("kill", "door")
        # The orchestrator's notes are marked by words, not only by color. Each note is in two logs, but appears once.
        self.wait(lambda: self.count("#logs .note") > before and "orchestrator:" in self.text("#logs"))
        self.assertEqual(self.script(
            "return model.lines.filter((line) => line.node === 'orchestrator' && line.text.startsWith('door: '))"), [])
        self.script("document.getElementById('mine').click()")
        self.wait(lambda: self.script(
            "const names = [...document.querySelectorAll('#logs b')].map((one) => one.textContent);"
            " return names.length > 0 && names.every((one) => one === 'door')"))
        self.fill("grep", "no line has this")
        self.wait(lambda: self.count("#logs li") == 0 and "No matching lines" in self.text("#lines"))
        self.fill("grep", "")
        self.wait(lambda: self.count("#logs li") > 0)
        # An instant before the first step shows no lines.
        self.wait(lambda: self.script(
            "const all = document.querySelectorAll('#logs li').length; model.at = 1; showAll();"
            " const then = document.querySelectorAll('#logs li').length; model.at = null; showAll();"
            " return all > 0 && then === 0"))

    def test_the_past_does_not_change_while_the_topology_runs(self):
        self.wait(lambda: self.count("#chart circle") > 20)
        rows = "return document.querySelectorAll('#chart circle').length"
        self.script(
            "showInstant(model.steps.find((step) => step.from !== undefined).time)")
        self.wait(lambda: self.text("#moment") != "now")
        self.wait(lambda: self.script(rows) < 10)
        then = self.cell("philosopher1", 1)
        moment = self.text("#moment")
        # Further updates from the inspector do not change the shown instant.
        end = time.monotonic() + 1
        while time.monotonic() < end:
            self.assertEqual(self.cell("philosopher1", 1), then)
            self.assertEqual(self.text("#moment"), moment)
        self.driver.find_element(By.ID, "live").click()
        self.wait(lambda: self.text("#moment") == "now")
        self.wait(lambda: self.script(rows) > 20)


class OnlyEvent(PageTest):
    file = "topology: relay\nprogram: nodes\nnodes:\n  relay: { machine: Relay }\n"

    def test_the_form_of_a_nodes_only_event_is_open(self):
        self.choose("relay")
        self.wait(lambda: self.count("#node input[name=n]") == 1)
        self.script("document.querySelector('#node input[name=n]').value = '7';"
                    " document.querySelector('#node form').requestSubmit()")
        self.wait(lambda: "7" in (self.cell("relay", 1) or ""))


class SendingEvents(PageTest):
    file = "topology: sending\nprogram: nodes\nnodes:\n  shed: { machine: ElevatorDoor }\n"

    def test_a_large_integer_reaches_the_node_as_it_was_typed(self):
        self.choose("shed")
        self.wait(lambda: self.count("#node .event") > 0)
        self.script("document.querySelector('#node [data-key=epersonsHaveEntered]').click()")
        self.wait(lambda: self.count("#node form") == 1)
        self.script("document.querySelector('#node input[name=persons]').value = '9007199254740993';"
                    " document.querySelector('#node form').requestSubmit()")
        self.wait(lambda: "9007199254740993" in (self.cell("shed", 1) or ""))
        self.assertIn('9007199254740993', self.topology.orchestrator("ps", "-o", "json"))

    def test_a_node_is_killed_stopped_and_started_after_a_confirmation(self):
        self.choose("shed")
        self.wait(lambda: self.count("#node [data-key=kill]") == 1)
        self.tab_to("kill")
        self.keys(Keys.ENTER)
        self.wait(lambda: self.focused() == "no")
        self.keys(Keys.ENTER)
        self.wait(lambda: self.focused() == "kill")
        self.assertEqual(self.cell("shed", 5), "0")
        self.keys(Keys.ENTER)
        self.wait(lambda: self.focused() == "no")
        self.keys(Keys.TAB)
        self.assertEqual(self.text("#question"), "Kill shed?")
        self.keys(Keys.ENTER)
        self.wait(lambda: self.text("#said") == "shed was killed.")
        self.wait(lambda: self.script(
            "return model.steps.some((step) => step.is === 'life' && step.node === 'shed' && (step.again || !step.running))"))
        self.wait(lambda: "running" in self.cell("shed", 2) or self.count("#node [data-key=start]") == 1)
        if self.count("#node [data-key=start]") == 0:
            self.script("control('shed', 'stop')")
            self.wait(lambda: self.script("return document.getElementById('confirm').open"))
            self.script("document.getElementById('yes').click()")
        self.wait(lambda: self.count("#node [data-key=start]") == 1)
        self.script("document.querySelector('#node [data-key=start]').click()")
        self.wait(lambda: self.text("#said") == "shed was started." and "running" in self.cell("shed", 2))

    def test_a_refused_event_is_in_the_sequence_chart(self):
        self.choose("shed")
        self.wait(lambda: self.count("#node .event") > 0)
        # The page subscribes asynchronously, so repeat the event until the refusal is shown.
        self.wait(lambda: self.script(
            "send('shed', 'doorHasLocked', []).catch(() => {});"
            " return document.getElementById('chart').textContent.includes('doorHasLocked refused')"))


class ReadingOnly(PageTest):
    file = HOUSE
    options = ("--read-only",)

    def test_a_read_only_page_sends_no_events(self):
        self.choose("door")
        self.wait(lambda: "✗" in self.text("#node"))
        self.assertEqual(self.count("form") + self.count("#node .event") + self.count("#node [data-key=kill]"), 0)
        self.assertIn("read only", self.text("#phase"))
        status = self.driver.execute_async_script(
            "const done = arguments[0]; fetch('/api/send', {method: 'POST', headers: {"
            "Authorization: 'Bearer ' + sessionStorage.getItem('token'),"
            " 'Content-Type': 'application/json'}, body: '{\"node\":\"door\",\"event\":\"x\"}'})"
            ".then((answer) => done(answer.status))")
        self.assertEqual(status, 403)
        status = self.driver.execute_async_script(
            "const done = arguments[0]; ask('/api/control', {node: 'door', action: 'kill'})"
            ".then(() => done(200), (error) => done(error.status))")
        self.assertEqual(status, 403)

    def test_a_page_without_the_token_shows_no_nodes(self):
        self.driver.switch_to.new_window("tab")
        self.driver.get(self.topology.address.split("#")[0])
        self.wait(lambda: "token" in self.text("#link"))
        self.assertEqual(self.count("#nodes tr"), 0)
        self.driver.close()
        self.driver.switch_to.window(self.driver.window_handles[0])

    def test_the_page_shows_an_ended_topology_and_reconnects_after_its_restart(self):
        self.wait(lambda: self.cell("door", 1))
        state = self.cell("shed", 1)
        self.topology.orchestrator("down")
        self.wait(lambda: self.text("#phase").startswith("down"))
        self.wait(lambda: self.text("#verdict").startswith("Ended The topology has ended: "))
        self.assertEqual(self.cell("shed", 1), state)
        # A page that is opened after the end shows the same.
        self.driver.refresh()
        self.wait(lambda: self.cell("shed", 1) == state and self.count("#chart circle") > 5)
        self.choose("philosopher1")
        self.wait(lambda: self.count("#node .statechart g.state") > 1)
        self.script("stepBy(-3)")
        self.wait(lambda: self.text("#moment") != "now")
        self.script("showInstant(null)")
        self.topology.orchestrator("up", "--wait", "house.yaml")
        self.wait(lambda: self.cell("door", 2) == "running")
        self.wait(lambda: not self.text("#verdict").startswith("Ended"))


class TakenOver(PageTest):
    file = "topology: shed\nprogram: nodes\nnodes:\n  shed: { machine: ElevatorDoor, durability: process }\n"

    def test_a_takeover_by_another_orchestrator_is_in_the_timeline(self):
        pids = "return [model.latest.nodes[0].pid, model.takeovers.map((one) => one.adopted)]"
        before = self.script(pids)
        self.assertEqual(before[1], [])
        orchestrator = self.topology.process()
        os.kill(orchestrator, signal.SIGKILL)
        self.wait(lambda: self.text("#phase").startswith("orphaned: ") and "adopts the nodes" in self.text("#verdict"))
        self.assertEqual(self.cell("shed", 2), "running")
        self.topology.orchestrator("up", "--wait", "house.yaml")
        self.wait(lambda: self.script(pids) == [before[0], [1]])
        self.wait(lambda: self.script("return drawnRange && drawnRange.to > model.takeovers[0].time && !isDue"))
        self.script("pointAt((model.takeovers[0].time - drawnRange.from) / (drawnRange.to - drawnRange.from) * drawnRange.width, AXIS + 5)")
        self.assertIn(f"took over from {orchestrator} and adopted 1 process", self.text("#pointed"))
        self.assertIn("a new orchestrator took over", self.text("#marks"))


class Instances(PageTest):
    file = """
topology: shop
program: nodes
nodes:
  orders: { machine: Order, key: order, final: [shipped, cancelled], keep: 30d }
"""

    def test_the_steps_of_instances_are_shown(self):
        def send(instance, event):
            self.topology.orchestrator("send", instance, event)
        self.wait(lambda: self.cell("orders", 2) == "running")
        self.choose("orders")
        # The page subscribes asynchronously, so further instances are created until a step is shown.
        numbers = iter(range(4711, 10000))

        def is_shown():
            instance = f"orders[{next(numbers)}]"
            send(instance, '{"place":{"amount":3}}')
            return self.script("return model.steps.some((step) => step.instance !== undefined)")
        self.wait(is_shown)
        instance = self.script("return model.steps.find((step) => step.instance).instance")
        send(instance, "pay")
        self.wait(lambda: self.script(
            "return [...document.querySelectorAll('#rows .label')].some((one) => one.textContent.startsWith(arguments[0]))",
            instance[len("orders"):] + " pay("))
        self.wait(lambda: self.script("return [...book.get('orders').ticks].length") >= 2)
        self.wait(lambda: self.count("#node .statechart .wire.seen") + self.count("#node .statechart .wire.taken") > 0)
        self.assertEqual(self.text("#skipped"), "")


class Stuck(PageTest):
    file = """
topology: relay
program: nodes
nodes:
  r1: { machine: Relay }
  r2: { machine: Relay }
  r3: { machine: Relay }
  tally: { machine: Tally }
pipes:
  - { from: r1.out, to: r2.in, capacity: 4 }
  - { from: r2.out, to: r3.in, capacity: 4 }
  - { from: r3.out, to: tally.in, capacity: 4 }
"""

    def test_the_keyboard_finds_and_repairs_the_cause_of_a_stuck_topology(self):
        self.wait(lambda: self.text("#verdict") == "Well all well")
        self.topology.orchestrator("stop", "r3")
        for number in range(8):
            self.topology.orchestrator("send", "r1", '{"token":{"n":%d}}' % number)
        self.wait(lambda: self.text("#verdict")
                  == "Failure Stuck: r3 is stopped → r2 is blocked (4 of 4) → r1 is blocked (4 of 4)")
        self.wait(lambda: self.count("#graph .wire.full") == 2 and self.count("#graph .node.blocked") == 2)
        self.assertEqual(self.script(
            "return [...document.querySelectorAll('#nodes tr')].map((row) => row.cells[0].textContent)"),
            ["r1", "r2", "r3", "tally"])
        self.script("document.activeElement.blur()")
        self.tab_to("Start r3")
        self.keys(Keys.ENTER)
        self.wait(lambda: self.text("#answer") == "r3 was started.")
        self.wait(lambda: self.text("#verdict").startswith("Well all well"))
        self.wait(lambda: "last: 7)" in (self.cell("tally", 1) or ""))
        self.assertEqual(self.count("#graph .wire.full"), 0)

    def test_a_token_is_followed_through_all_nodes(self):
        self.topology.orchestrator("send", "r1", '{"token":{"n":77}}')
        self.wait(lambda: self.script(
            "const step = model.steps.find((one) => one.node === 'r1' && stateText(one.event).includes('77'));"
            " if (step && !followed) follow(step); return followed && followed.effects === 3"))
        self.addCleanup(self.script, "leaveEvent()")
        self.assertEqual(self.script("return followed.steps.map((step) => step.node)"), ["r1", "r2", "r3", "tally"])
        self.wait(lambda: self.count("#graph .wire.lit") == 3 and self.count("#rows li") == 4)
        self.keys("]", "]", "]")
        self.wait(lambda: self.script("return followed.at.node") == "tally")
        self.keys("[")
        self.wait(lambda: self.script("return followed.at.node") == "r3")
        self.assertIn("event=r1%40", self.driver.current_url)
        # The address opens the same event in another page.
        address = self.driver.current_url
        self.driver.get("about:blank")
        self.driver.get(address)
        self.wait(lambda: self.script("return followed && followed.start.node === 'r1'"))
        self.keys(Keys.ESCAPE)
        self.wait(lambda: self.script("return followed === null"))

    def test_the_address_selects_a_node(self):
        self.choose("r2")
        self.wait(lambda: self.driver.current_url.endswith("#node=r2"))
        self.script("location.hash = 'node=tally'")
        self.wait(lambda: self.text("#h-node") == "tally")
        self.driver.refresh()
        self.wait(lambda: self.text("#h-node") == "tally")

    def test_the_graph_is_zoomed_and_fits_again(self):
        width = "return Number(document.querySelector('#graph svg').getAttribute('width'))"
        self.wait(lambda: self.count("#graph svg") == 1)
        fitting = self.script(width)
        self.script("document.getElementById('larger').click()")
        self.assertGreater(self.script(width), fitting)
        self.script("document.getElementById('fit').click()")
        self.assertEqual(self.script(width), fitting)
