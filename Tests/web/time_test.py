"""Tests of the timeline, the sequence chart and followed events, with recorded replies."""

import json
import os

import recording
from recorded_page import RecordedPage
from recording import START, at, counts, delta, end, line, node, pipe, state, step
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys


class Time(RecordedPage):
    def cpu(self):
        """Returns the processor time of all processes of the browser. Unit: seconds."""
        parents = {}
        times = {}
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/stat") as file:
                    fields = file.read().rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(pid)] = int(fields[1])
            times[int(pid)] = int(fields[11]) + int(fields[12])
        total, found = 0, {self.driver.service.process.pid}
        while found:
            total += sum(times.get(pid, 0) for pid in found)
            found = {pid for pid, parent in parents.items() if parent in found}
        return total / os.sysconf("SC_CLK_TCK")

    def test_the_timeline_is_brushed_and_played(self):
        self.give(delta(20, [], [step("motor", 3, 19, "start", "standing", "moving")]))
        box = self.script("const box = document.getElementById('slider').getBoundingClientRect();"
                          " return [box.width, box.height]")
        slider = self.driver.find_element(By.ID, "slider")
        before = self.script("return shownRange()")
        ActionChains(self.driver).move_to_element_with_offset(slider, -round(box[0] / 4), 0).click_and_hold() \
            .move_by_offset(round(box[0] / 2), 0).release().perform()
        self.drawn()
        zoomed = self.script("return shownRange()")
        self.assertAlmostEqual((zoomed["to"] - zoomed["from"]) / (before["to"] - before["from"]), 0.5, delta=0.05)
        # Plays at ten times the speed until the present.
        self.script("setRange(arguments[0], arguments[1]); document.getElementById('speed').value = '10'; play()",
                    at(1), at(20))
        self.wait(lambda: self.script("return model.at > arguments[0]", at(3)))
        self.assertEqual(self.text("#play"), "Pause")
        self.wait(lambda: self.text("#moment") == "now" and self.text("#play") == "Play")
        # The states of nodes without a report are unknown.
        self.look_back(0)
        self.assertIn("unknown", self.script(
            "pointAt(1, AXIS + LANE_HEIGHT * 1.5); return document.getElementById('pointed').textContent"))
        # Keys step through time, and every mark has words.
        self.script("document.getElementById('slider').focus()")
        moment = self.text("#moment")
        self.keys(Keys.ARROW_RIGHT)
        self.wait(lambda: self.text("#moment") > moment)
        self.keys(Keys.END)
        self.wait(lambda: self.text("#moment") == "now")
        self.assertEqual(
            self.script("return timelineLanes().find((lane) => lane.node.name === 'door').marks.map((one) => one.kind)"),
            ["ended", "started"])

    def test_the_sequence_chart_holds_still_while_the_user_has_scrolled_back(self):
        def steps(first, count, second):
            return [step("motor", number, second + number / 1000, "start", "standing", "moving")
                    for number in range(first, first + count)]
        self.give(delta(11, [], steps(3, 200, 10)))
        first = ("const top = document.getElementById('chart').getBoundingClientRect().top + 40;"
                 " return [...document.querySelectorAll('#rows li')].filter((one) =>"
                 " one.getBoundingClientRect().top >= top).map((one) => one.getAttribute('aria-label'))[0]")
        self.script("document.getElementById('rows').focus()")
        self.keys(Keys.PAGE_UP, Keys.PAGE_UP, Keys.PAGE_UP)
        self.wait(lambda: not self.script("return document.getElementById('latest').disabled"))
        shown = self.script(first)
        active = self.script("const list = document.getElementById('rows');"
                             " return document.getElementById(list.getAttribute('aria-activedescendant')).ariaLabel")
        self.assertIn("motor: start", active)
        element = "return document.querySelector('#rows li[aria-selected=true]')"
        kept = self.script(element)
        for turn in range(1, 8):
            self.give(delta(11 + turn, [], steps(3 + 200 * turn, 200, 10 + turn)))
            self.assertEqual(self.script(first), shown)
        # The row that the keyboard has selected is the same element as before.
        self.assertEqual(self.script(element), kept)
        self.script("document.getElementById('latest').click()")
        self.drawn()
        self.assertEqual(self.script("return sequence.rows.length"), 1000)
        self.assertTrue(self.script("return isAtFloor(document.getElementById('chart'))"))
        self.assertTrue(self.script("return document.getElementById('latest').disabled"))

    def test_a_followed_event_has_its_causes_and_effects_on_all_panels(self):
        self.script("document.querySelector('#pipes [data-key=\"p' + arguments[0] + '\"]').click()", START)
        self.drawn()
        self.assertEqual(self.script("return followed.steps.map((one) => one.node + ' ' + one.version)"),
                         ["door 2", "door 3", "motor 1", "motor 2", "door 4"])
        self.assertEqual(self.count("#rows li"), 5)
        self.assertEqual(self.count("#graph .node.dim"), 8)
        self.assertIn("3 persons", self.script(
            "return [...document.querySelectorAll('#logs .dim')].map((one) => one.textContent).join()"))
        self.keys("]")
        self.wait(lambda: self.script("return followed.at.version === 2 && followed.at.node === 'motor'"))
        # A synchronized event includes the steps of all participants.
        self.script("follow(model.steps.find((one) => one.node === 'fork1'))")
        self.drawn()
        self.assertEqual(self.script("return [...followed.nodes].sort()"), ["fork1", "fork2", "philosopher1"])
        self.keys(Keys.ESCAPE)
        self.wait(lambda: self.count("#graph .dim") == 0)

    def test_nothing_moves_while_values_change(self):
        self.choose_door()
        self.script("window.shifts = 0; new PerformanceObserver((list) => { for (const one of list.getEntries())"
                    " window.shifts += one.value; }).observe({ type: 'layout-shift' })")
        for second in range(11, 31):
            self.give(delta(second, [
                state("till", {"open": {"orders": 10 ** (second - 11)}}, 1200 + second, second, counts(
                    10 ** (second - 11), letters=second, outs=[end(recording.ORDERS, 1200, waiting=second, capacity=64)])),
                state("door", {"closing": {"persons": second}}, second, second, counts(second), incarnation=2),
            ], [step("motor", second, second, "start", "standing", "moving")], [line("door", second, "more " * second)]))
        self.script("follow(model.steps.at(-1))")
        self.drawn()
        self.script("leaveEvent(); showInstant(model.steps[4].time)")
        self.drawn()
        self.assertLess(self.script("return window.shifts"), 0.1)

    def test_an_update_at_three_hundred_events_a_second_uses_little_processor_time(self):
        # 40 nodes in a chain pass events on. After 1,000 steps, the page receives 30 steps ten times a second.
        nodes = [node(f"n{number}", "Relay") for number in range(40)]
        pipes = [pipe(f"n{number}->n{number + 1}", f"n{number}", f"n{number + 1}") for number in range(39)]
        self.give(delta(11, [dict(recording.HOUSE, nodes=nodes, pipes=pipes, composites=[]),
                             *[state(one["name"], "idle", 1, 1, counts(1)) for one in nodes]], whole=True))
        self.choose("n7")
        self.wait(lambda: self.count("#node .event") > 0)
        before = self.cpu()
        found = self.driver.execute_async_script("""
          const done = arguments[1];
          const base = JSON.parse(arguments[0]);
          const [tasks, work] = [[], []];
          let number = 0;
          const answer = (count) => {
            number += 1;
            const happened = Array.from({ length: count }, (_, index) => {
              const place = (number * count + index) % 40;
              const turn = Math.floor((number * count + index) / 40);
              const event = (from) => ({ pipe: `n${from}->n${from + 1}`, stream: 7, number: turn });
              return { node: 'n' + place, incarnation: 1, index: turn + 1, version: turn + 1, event: { pass: { turn } },
                time: base.time + number * 1e8 + index * 3e6, from: turn % 2 ? 'busy' : 'idle', state: turn % 2 ? 'idle' : { busy: { turn } },
                cause: 'pipe', sent: place < 39 ? [event(place)] : [], ...(place ? { source: event(place - 1) } : {}) };
            });
            const standing = happened.map((step) => ({ is: 'state', node: step.node, incarnation: 1, version: step.version, time: step.time,
              cause: 'pipe', case: 'busy', doubts: [], state: step.state, counts: { events: step.version, refused: 0, deadLetters: 0,
                effects: 0, gaps: 0, blocked: [], outs: [], ins: [] } }));
            return { ...base, cursor: String(1e7 + number), time: base.time + number * 1e8 + 1e8, happened, standing };
          };
          for (let turn = 0; turn < 10; turn += 1) applyDelta(answer(100));
          showAll();
          setTimeout(() => {
            new PerformanceObserver((list) => tasks.push(...list.getEntries().map((one) => Math.round(one.duration))))
              .observe({ type: 'longtask' });
            let turns = 0;
            const timer = setInterval(() => {
              const start = performance.now();
              applyDelta(answer(30));
              requestAnimationFrame(() => setTimeout(() => work.push(performance.now() - start), 0));
              if ((turns += 1) < 60) return;
              clearInterval(timer);
              setTimeout(() => done({ tasks, work: work.sort((a, b) => a - b), rows: sequence.rows.length,
                elements: document.querySelectorAll('#rows li').length }), 500);
            }, 100);
          }, 500);
          """, json.dumps(delta(12)))
        work = found["work"]
        update = (self.cpu() - before) / 70 * 1000
        print(f"300 events/s: an update uses {update:.0f} ms of a processor, and takes {work[len(work) // 2]:.0f} ms"
              f" (maximum: {work[-1]:.0f} ms); long tasks: {found['tasks']} ms")
        self.assertEqual(found["rows"], 1000)
        self.assertLess(found["elements"], 60)
        # Tasks also become long because other programs use the processors, so the test limits the processor time.
        self.assertLess(update, 50)
