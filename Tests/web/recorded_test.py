"""Tests of the page with recorded replies: golden pictures, and situations that are rare in a running topology.

An inspector serves the page, and recording.py replaces its replies.
"""

import copy
import io
import json
import os
import unittest

from PIL import Image

import goldens
import recording
from recording import ORDERS, START, at, delta, end, counts, event, line, node, pipe, state, step
from recorded_page import RecordedPage
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

FONTS = "* { font-family: 'DejaVu Sans' !important } .code, .code * { font-family: 'DejaVu Sans Mono' !important }"
PANELS = ["health", "nodes", "node", "graph", "timeline", "pipes", "chart", "logs"]
AXE = os.environ.get("AXE")


class Recorded(RecordedPage):
    def each_appearance(self):
        for scheme in ["light", "dark"]:
            for width in [1280, 400]:
                self.show_as(scheme, width, 1000)
                self.resized()
                height = self.script("return document.documentElement.scrollHeight")
                self.show_as(scheme, width, height)
                self.resized()
                self.assertLessEqual(
                    self.script("return document.documentElement.scrollWidth"), width,
                    "the page is wider than the screen")
                yield f"{scheme}-{width}"

    def test_goldens_match_the_page(self):
        self.choose_door()
        # Use the fonts of Tests/web/debian-packages.txt, independent of the machine's other fonts.
        self.script("const fonts = new CSSStyleSheet(); fonts.replaceSync(arguments[0]);"
                    " document.adoptedStyleSheets = [fonts]; theme = null", FONTS)
        errors = []
        for look in self.each_appearance():
            picture = Image.open(io.BytesIO(self.driver.get_screenshot_as_png())).convert("RGB")
            picture.save(os.path.join(os.path.dirname(self.picture(look)), look + ".png"))
            if look.endswith("-1280"):
                errors.append(goldens.document_difference("page-" + look.split("-")[0], picture))
            errors += self.differences(PANELS, "", look)
            # The motor's last step has a cause before and an effect after it.
            self.script("follow(model.steps.find((step) => step.node === 'motor' && step.version === 2))")
            self.resized()
            self.picture("followed-" + look)
            errors += self.differences(["graph", "timeline", "chart", "logs"], "followed-", look)
            self.script("leaveEvent()")
            self.resized()
        self.assertEqual([error for error in errors if error], [])

    def test_goldens_match_the_moments_stuck_and_after_a_kill(self):
        errors = []
        for name, moment in [("stuck", recording.STUCK), ("killed", recording.KILLED)]:
            self.load()
            self.script("const fonts = new CSSStyleSheet(); fonts.replaceSync(arguments[0]);"
                        " document.adoptedStyleSheets = [fonts]; theme = null", FONTS)
            self.give(moment)
            for look in self.each_appearance():
                self.picture(f"{name}-{look}")
                errors += self.differences(["health", "nodes", "graph", "timeline", "chart"], name + "-", look)
        self.assertEqual([error for error in errors if error], [])

    def differences(self, panels, prefix, look):
        picture = Image.open(io.BytesIO(self.driver.get_screenshot_as_png())).convert("RGB")
        for panel in panels:
            bounds = self.script(
                "const place = document.getElementById('h-' + arguments[0]).closest('section')"
                ".getBoundingClientRect(); return [place.left, place.top, place.right, place.bottom]", panel)
            yield goldens.difference(f"{prefix}{panel}-{look}", picture.crop(tuple(map(round, bounds))))

    @unittest.skipUnless(AXE, "axe is not installed: PyPI was unreachable")
    def test_axe_finds_no_accessibility_errors(self):
        self.choose_door()
        with open(AXE) as file:
            axe = file.read()
        for look in self.each_appearance():
            self.check(axe, look)
        self.look_back(4)
        self.check(axe, "looking back")
        self.script("follow(model.steps[0])")
        self.drawn()
        self.check(axe, "a followed event")
        self.script("showInstant(null)")
        self.drawn()
        self.script("pressEvent({ name: 'door' }, model.enabled.events[2], eventKey({ name: 'door' },"
                    " model.enabled.events[2]), null)")
        self.wait(lambda: self.count("#node form") == 1)
        self.check(axe, "a form")
        self.script("document.getElementById('keys').showModal()")
        self.check(axe, "the keys")
        self.script("document.getElementById('keys').close(); isConfirmed('Kill door?', 'It restarts.', 'Kill door')")
        self.check(axe, "a confirmation")
        self.script("document.getElementById('confirm').close('no'); enlarge(true)")
        self.drawn()
        self.check(axe, "an enlarged state chart")
        self.script("enlarge(false)")
        for moment in [recording.STUCK, recording.KILLED]:
            self.give(moment)
            self.check(axe, "a moment")

    def check(self, axe, look):
        if not self.script("return 'axe' in window"):
            self.script(axe)
        found = self.driver.execute_async_script(
            "const done = arguments[0]; axe.run(document).then((found) => done(found.violations.map((one) =>"
            " one.id + ': ' + one.nodes.map((node) => node.html).slice(0, 3).join(' '))),"
            " (error) => done([String(error)]))")
        self.assertEqual(found, [], look)

    def test_the_timeline_sets_the_instant_of_all_panels(self):
        # Changes the contents of all panels while the page is open.
        later = copy.deepcopy(recording.HOUSE)
        later["nodes"][6].update(phase="failed", running=False, restarts=2, pid=None, reason="killed")
        self.choose("till")
        self.wait(lambda: self.count("#node .event") == 3)
        self.give(delta(20, [
            later,
            state("till", {"open": {"orders": 1300}}, 1300, 19, counts(1300, letters=9, outs=[
                end(recording.ORDERS, 1300, waiting=3, capacity=64)])),
        ], [step("door", 5, 19, "doorIsOpen", "opening", "held", incarnation=2)],
            [line("till", 19, "more orders")]))
        self.wait(lambda: "Dead letters" in self.text("#node"))
        self.give(delta(30, [], [step("door", 6, 29, "x", "held", "open", incarnation=2)]))

        def contents():
            return {
                "nodes": [self.cell("till", column) for column in (1, 2, 4, 5)],
                "node": self.text("#node"), "graph": self.text("#graph [data-key=gtill]"),
                "pipes": self.script("return document.querySelector('#pipes tr:last-child').textContent"),
                "chart": self.count("#chart circle"), "logs": self.text("#logs"),
                "moment": self.text("#moment")}
        now = contents()
        self.assertEqual(self.script(
            "const one = document.getElementById('slider');"
            " return [one.ariaValueMax, one.ariaValueNow, one.ariaValueText]"), ["15", "15", "now"])
        self.assertEqual(now["nodes"], ["open(orders: 1300)", "failed", "9", "2"])
        self.assertIn("3 of 64", now["pipes"])
        self.assertIn("more orders", now["logs"])
        steps = self.script("return model.steps.length")
        # The last step before the changes.
        self.look_back(steps - 3)
        then = contents()
        self.assertEqual(then["moment"], "10:00:08.010")
        self.assertEqual(then["nodes"], ["–", "running", "", "0"])
        self.assertIn("Fill", self.text("#h-pipes + .scroll th:nth-child(2)"))
        self.assertIn("–", then["pipes"])
        self.assertEqual(now["chart"] - then["chart"], 2)
        self.assertNotIn("more orders", then["logs"])
        self.assertIn("unknown for the past", then["node"])
        self.assertNotIn("failed", then["node"] + then["graph"])
        # An instant between the two replies shows the first reply.
        self.script("showInstant(arguments[0])", at(15))
        self.drawn()
        then = contents()
        self.assertEqual(then["nodes"], ["open(orders: 1200)", "running, blocked", "0", "0"])
        self.assertIn("64 of 64, full", then["pipes"])
        self.assertIn("open(orders: 1200)", then["graph"])
        # For an instant before the page was opened, phases are derived from the later phase changes.
        self.look_back(0)
        self.assertEqual([self.cell("passengers", column) for column in (2, 5)], ["running", "3"])
        self.driver.find_element(By.ID, "live").click()
        self.wait(lambda: contents() == now)

    def test_a_full_pipe_is_shown_as_full_wherever_its_events_wait(self):
        self.give(delta(11, [
            state("till", {"open": {"orders": 1200}}, 1200, 10.9, counts(
                1200, blocked=[ORDERS], outs=[end(ORDERS, 1200, applied=1136, waiting=0, capacity=64)])),
            state("kitchen", "cooking", 1136, 10.9, counts(1136, letters=3, ins=[
                end(ORDERS, 1200, applied=1136, waiting=64)]))]))
        row = "return [...document.querySelectorAll('#pipes tr')].find((one) =>" \
              " one.cells[0].textContent === arguments[0]).cells[1]"
        self.assertEqual(self.script(row + ".textContent", ORDERS), "64 of 64, full, 64 at the receiver")
        self.assertEqual(self.script(row + ".className", ORDERS), "blocked")
        self.assertIn("64/64 full", self.text("#graph"))
        self.assertEqual(self.count("#graph .wire.full"), 1)
        self.assertEqual(self.cell("till", 2), "running, blocked")
        self.assertIn("blocked", self.text("#graph [data-key=gtill]"))
        self.assertEqual(self.count("#graph [data-key=gtill].blocked"), 1)
        # Only a count above zero is highlighted.
        letters = "for (const row of document.querySelectorAll('#nodes tr'))" \
                  " if (row.cells[0].textContent === arguments[0]) return row.cells[4].className"
        self.assertEqual(self.script(letters, "kitchen"), "number letters")
        self.assertEqual(self.script(letters, "till"), "number")
        self.choose("till")
        self.assertIn("Blocked: the node accepts no input", self.text("#node"))

    def test_a_stopped_node_and_its_full_pipe_are_not_shown_as_blocked(self):
        stopped = copy.deepcopy(recording.HOUSE)
        stopped["nodes"][6].update(phase="stopped", running=False, pid=None)
        self.give(delta(11, [stopped]))
        self.assertEqual(self.cell("till", 2), "stopped")
        self.assertIn("64 of 64, 16 at the receiver, sender stopped", self.text("#pipes"))
        self.assertEqual(self.count("#graph .wire.full") + self.count("#graph .blocked"), 0)
        self.assertEqual(self.count("#graph [data-key=gtill].stopped"), 1)
        self.assertIn("stopped", self.text("#graph [data-key=gtill]"))

    def test_refused_and_undelivered_events_are_in_the_sequence_chart(self):
        self.give(delta(11, [
            state("door", {"open": {"persons": 0}}, 4, 10.9, counts(4, outs=[end(START, 3, applied=1, waiting=2)])),
        ], [
            step("door", 5, 10, "poll", "closed", "closed", cause="client", incarnation=2,
                 sent=[event(START, 2), event(START, 3)]),
            {"node": "door", "incarnation": 2, "index": 5, "version": 5, "time": at(10.5), "cause": "request",
             "refused": "refused: noTransition", "event": "doorHasLocked", "state": "closed"},
        ]))
        self.assertEqual(self.count("#chart .waits"), 1)
        self.assertIn("… 2 wait", self.text("#chart"))
        self.assertIn("doorHasLocked refused: noTransition", self.text("#chart"))
        self.assertEqual(self.text("#skipped"), "")
        # The receiver refuses the first event, postpones the second, and takes the second event later.
        self.give(delta(12, [], [
            {"node": "motor", "incarnation": 1, "index": 2, "version": 2, "time": at(11.1), "cause": START,
             "refused": "refused: noTransition", "event": "start", "state": "standing", "source": event(START, 2)},
            {"node": "motor", "incarnation": 1, "index": 2, "version": 2, "time": at(11.2), "cause": START,
             "refused": "refused: noTransition", "postponed": True, "event": "start", "state": "standing",
             "source": event(START, 3)},
        ]))
        self.assertEqual(self.count("#chart .waits"), 0)
        self.assertIn("start postponed: noTransition", self.text("#chart"))
        self.assertEqual(self.count("#chart .refused[marker-end]"), 2)
        self.assertEqual(self.cell("motor", 1), "standing")
        self.give(delta(13, [], [step("motor", 3, 12, "start", "standing", "moving", source=event(START, 3))]))
        self.assertEqual(self.text("#skipped"), "")
        self.assertIn("start → moving", self.text("#chart"))
        # Refused events that were skipped are counted.
        self.give(delta(14, [], [{"node": "motor", "incarnation": 1, "index": 3, "version": 3, "refused": "",
                                  "skipped": 40}]))
        self.assertEqual(self.text("#skipped"), "40 steps not shown")

    def test_integers_above_2_to_53_are_sent_and_shown_exactly(self):
        self.choose_door()
        self.open_form()
        self.keys("9007199254740993", Keys.ENTER)
        asked = "return recorded.asked.filter((one) => one.includes('send')).at(-1)"
        self.wait(lambda: "accepted" in self.text("#said"))
        self.assertIn('"event":{"personsHaveEntered":{"persons":9007199254740993}}', self.script(asked))
        self.give(delta(12, [state("door", {"open": {"persons": 9007199254740993}}, 5, 11, counts(5), incarnation=2),
                             state("fork1", {"count": -9223372036854775808}, 2, 11)]))
        self.assertEqual(self.cell("door", 1), "open(persons: 9007199254740993)")
        self.assertEqual(self.cell("fork1", 1), 'count: -9223372036854775808')
        # An integer that exceeds 64 bits is rejected by the page.
        self.script("document.querySelector('#node input[name=persons]').value = '9223372036854775808'")
        self.script("document.querySelector('#node form').requestSubmit()")
        self.wait(lambda: "cannot be sent" in self.text("#said"))
        self.assertIn("9007199254740993", self.script(asked))

    def test_a_frozen_page_does_not_change(self):
        self.script("document.getElementById('freeze').click()")
        self.drawn()
        before = self.text("main")
        self.give(delta(60, [state("motor", "moving", 3, 59.9)], [
            step("motor", 3, 59.9, "start", "standing", "moving")], [line("motor", 59.9, "it moves")]))
        self.assertEqual(self.text("main"), before)
        self.choose("motor")
        self.assertNotIn("moving", self.text("#node .state"))
        self.script("document.getElementById('freeze').click()")
        self.drawn()
        self.assertIn("it moves", self.text("#logs"))
        self.assertEqual(self.cell("motor", 1), "moving")

    def test_skipped_steps_and_lines_are_counted(self):
        self.assertEqual(self.text("#skipped"), "")
        self.give(delta(11, [], [step("motor", 53, 10.5, "start", "standing", "moving")], skipped=70))
        # The 70 skipped steps include 50 steps of the motor.
        self.assertEqual(self.text("#skipped"), "70 steps not shown")
        self.give(delta(12, [], [step("motor", 55, 11.5, "start", "standing", "moving")]))
        self.assertEqual(self.text("#skipped"), "71 steps not shown")
        self.give(delta(13, written=[line("motor", 12, "on")], unwritten=5))
        self.assertIn("5 lines are not shown here", self.text("#logs"))

    def test_typed_text_survives_updates_of_the_page(self):
        self.choose_door()
        self.open_form()
        self.keys("4")
        self.script("window.input = document.activeElement")
        self.give(delta(12, [state("door", {"open": {"persons": 8}}, 5, 11, counts(5), incarnation=2)]))
        self.wait(lambda: "version 5" in self.text("#node"))
        self.assertIn("open(persons: 8)", self.text("#node .state"))
        self.assertTrue(self.script("return document.activeElement === input && input.isConnected"))
        self.keys("2")
        self.assertEqual(self.script("return input.value"), "42")
        self.keys(Keys.ENTER)
        self.wait(lambda: "personsHaveEntered: accepted" in self.text("#said"))
        self.assertIn('{"persons":42}', self.script("return recorded.asked.find((one) => one.includes('send'))"))

    def test_a_new_history_replaces_the_former_history(self):
        self.choose_door()
        self.give(delta(11, [], [step("motor", 53, 10.5, "start", "standing", "moving")]))
        self.assertEqual(self.text("#skipped"), "50 steps not shown")
        self.give(delta(12, [state("motor", "standing", 12, 12, counts(12))]))
        self.assertEqual(self.cell("motor", 3), "5")
        self.look_back(3)
        other = dict(recording.HOUSE, nodes=[node("motor", "ElevatorMotor")], pipes=[], composites=[])
        self.give(delta(500, [other, state("motor", "standing", 1, 499)], [
            step("motor", 900, 499, "start", "standing", "moving")], [line("motor", 499, "new")], whole=True))
        self.assertEqual(self.text("#moment"), "now")
        self.assertEqual(self.text("#skipped"), "")
        self.assertEqual(self.count("#logs li"), 1)
        self.assertEqual(self.cell("motor", 3), "")
        self.assertIn("no such node", self.text("#node"))

    def test_filters_survive_a_reload(self):
        self.choose_door()
        self.fill("search", "fork")
        self.fill("grep", "stove")
        self.script("document.getElementById('only').click()")
        self.driver.refresh()
        self.wait(self.is_ready)
        self.give(recording.WHOLE)
        self.assertEqual(self.count("#nodes tr"), 2)
        self.assertEqual(self.count("#logs li"), 1)
        self.assertTrue(self.script("return document.getElementById('only').checked"))
        self.wait(lambda: self.text("#h-node") == "door" and self.count("#node .event") == 3)
        self.fill("search", "no node")
        self.drawn()
        self.assertEqual(self.text("#nodes"), "No matching nodes.")

    def test_five_hundred_nodes_are_grouped_and_update_few_elements(self):
        nodes = [node("hub", "Hub")] + [node(f"worker{number}", "Worker") for number in range(1, 500)]
        pipes = [pipe(f"hub->worker{number}", "hub", f"worker{number}") for number in range(1, 500)]
        states = [state(one["name"], "idle", 1, 1, counts(1, ins=[end("hub->" + one["name"], 1)]))
                  for one in nodes]
        large = dict(recording.HOUSE, nodes=nodes, pipes=pipes, composites=[])
        self.give(delta(11, [large, *states], whole=True))
        boxes = "return [...document.querySelectorAll('#graph [role=button]')].map((one) =>" \
                " one.getAttribute('aria-label'))"
        self.assertEqual(self.script(boxes), ["hub, idle", "499 nodes worker…, all running: search for them"])
        # A change of one node redraws only elements of this node.
        found = self.script("""
          const times = [];
          let changes = 0;
          const watcher = new MutationObserver((records) => { changes += records.length; });
          watcher.observe(document.body, { childList: true, subtree: true, characterData: true });
          for (let turn = 0; turn < 40; turn += 1) {
            const answer = JSON.parse(arguments[0]);
            answer.time += turn * 1e8;
            answer.standing[0].version += turn;
            answer.standing[0].state = 'busy' + turn;
            const start = performance.now();
            applyDelta(answer);
            showAll();
            document.body.getBoundingClientRect();
            times.push(performance.now() - start);
            changes += watcher.takeRecords().length;
          }
          watcher.disconnect();
          return { times: times.sort((a, b) => a - b), changes: changes / 40 };
          """, json.dumps(delta(12, [state("worker7", "busy", 2, 11.5, counts(2))], [
              step("worker7", 2, 11.5, "work", "idle", "busy")])))
        times = found["times"]
        print(f"500 nodes: a reply takes {times[20]:.1f} ms (maximum: {times[-1]:.0f} ms),"
              f" and changes {found['changes']:.0f} elements")
        self.assertLess(found["changes"], 12)
        self.script("document.querySelectorAll('#graph [role=button]')[1].dispatchEvent(new MouseEvent('click'))")
        self.drawn()
        self.assertEqual(self.script("return document.getElementById('search').value"), "worker")
        self.assertEqual(self.count("#graph [role=button]"), 60)
        self.assertIn("439 more", self.text("#folded"))

    def test_a_large_state_is_shown_in_parts(self):
        large = {"full": {"text": "x" * (1 << 20)}}
        report = state("door", None, 5, 11, counts(5), incarnation=2, large=(1 << 20) + 20, case="full")
        self.script("recorded.replies['/api/state'] = { version: 5, state: arguments[0] }", large)
        self.choose_door()
        self.give(delta(12, [report]))
        self.assertIn("full (1,048,", self.text("#node .state"))
        self.tab_to("whole")
        self.keys(Keys.ENTER)
        self.wait(lambda: "part 1 of 65" in self.text("#node"))
        length = "return document.querySelector('#node pre').textContent.length"
        self.assertEqual(self.script(length), 16384)
        self.keys(Keys.TAB)
        self.tab_to("Later part")
        self.keys(Keys.ENTER)
        self.wait(lambda: "part 2 of 65" in self.text("#node"))
        # The parts are split once: further replies do not change the element.
        found = self.script("""
          const pre = document.querySelector('#node pre');
          const start = performance.now();
          for (let turn = 0; turn < 20; turn += 1) { applyDelta(JSON.parse(arguments[0])); showAll(); }
          return { time: (performance.now() - start) / 20, isSame: pre === document.querySelector('#node pre') };
          """, json.dumps(delta(13, [dict(report, version=6)])))
        print(f"a state of 1 MiB: a reply takes {found['time']:.1f} ms")
        self.assertTrue(found["isSame"])

    def test_nothing_moves_if_the_user_prefers_reduced_motion(self):
        self.choose_door()
        moves = "return getComputedStyle(document.querySelector('.statechart .wire.taken')).transitionDuration"
        self.show_as("light", 1280, 1000, {"name": "prefers-reduced-motion", "value": "no-preference"})
        self.assertEqual(self.script(moves), "0.3s")
        self.show_as("light", 1280, 1000, {"name": "prefers-reduced-motion", "value": "reduce"})
        self.assertEqual(self.script(moves), "0s")
