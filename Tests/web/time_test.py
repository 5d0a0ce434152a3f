"""Tests of the timeline, the sequence chart and followed events, with recorded replies."""

import json
import os
import tempfile

import recording
from recorded_page import RecordedPage
from recording import START, at, counts, delta, end, event, line, node, pipe, state, step
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
        for section, limits in [("graph", {"layouts": 5, "added": 10}), ("chart", {"layouts": 6, "added": 150})]:
            self.load()
            self.give(delta(11, [dict(recording.HOUSE, nodes=nodes, pipes=pipes, composites=[]),
                                 *[state(one["name"], "idle", 1, 1, counts(1)) for one in nodes]], whole=True))
            self.choose("n7")
            self.wait(lambda: self.count("#node .event") > 0)
            self.script("document.getElementById('h-' + arguments[0]).scrollIntoView()", section)
            self.resized()
            self.measure(section, limits)

    def layouts(self):
        metrics = self.driver.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
        return next(one["value"] for one in metrics if one["name"] == "LayoutCount")

    def measure(self, section, limits):
        self.driver.execute_cdp_cmd("Performance.enable", {})
        before = [self.cpu(), self.layouts()]
        found = self.driver.execute_async_script(LOAD, json.dumps(delta(12)), section)
        update = (self.cpu() - before[0]) / 70 * 1000
        layouts = (self.layouts() - before[1]) / max(1, found["draws"])
        work = found["work"]
        print(f"300 events/s, {section} in sight: an update uses {update:.0f} ms of a processor, and takes"
              f" {work[len(work) // 2]:.0f} ms (maximum: {work[-1]:.0f} ms); long tasks: {found['tasks']} ms; a drawing computes"
              f" {layouts:.1f} layouts and adds {found['added']:.0f} elements")
        self.assertEqual(found["rows"], 1000)
        self.assertLess(found["elements"], 60)
        # Tasks also become long because other programs use the processors, so the test limits the work: how often the
        # layout is computed, and how many elements the section in sight gets.
        self.assertLess(layouts, limits["layouts"])
        self.assertLess(found["added"], limits["added"])
        self.assertLess(update, 40)

    def test_panels_out_of_sight_are_drawn_when_they_come_into_sight(self):
        fill = "return document.querySelector('#pipes tr:last-child').cells[2].textContent"
        sent = [state("till", {"open": {"orders": 1300}}, 1300, 19, counts(
            1300, outs=[end(recording.ORDERS, number, waiting=0, capacity=64)])) for number in (1301, 1302, 1303)]

        def update(second, one):
            # Does not draw the panels that are out of sight, as `give` does.
            self.script("recorded.give(arguments[0])", json.dumps(delta(second, [one])))
            self.wait(lambda: self.script("return recorded.waiting !== null && !isDue && model.cursor === arguments[0]",
                                          delta(second)["cursor"]))
        self.script("scrollTo(0, 0); wholeAt = performance.now() + 1e6")
        self.wait(lambda: self.script("return unseen.has(byId('pipes').closest('section'))"))
        update(20, sent[0])
        self.assertEqual(self.script("return [...model.ends.values()].some((one) => one.out && one.out.events === 1301)"), True)
        self.assertEqual(self.script(fill), "1200")
        self.script("document.getElementById('h-pipes').scrollIntoView()")
        self.wait(lambda: self.script(fill) == "1301")
        # Without scrolling, they are drawn a little later.
        self.script("scrollTo(0, 0)")
        self.wait(lambda: self.script("return unseen.has(byId('pipes').closest('section'))"))
        update(21, sent[1])
        self.wait(lambda: self.script(fill) == "1302")
        # A change that the user makes draws all panels.
        self.script("wholeAt = performance.now() + 1e6")
        update(22, sent[2])
        self.fill("search", "door")
        self.drawn()
        self.fill("search", "")
        self.wait(lambda: self.script(fill) == "1303")

    def test_a_dot_moves_along_a_wire_for_each_event_at_low_rates(self):
        def pulses(second, count, motion="no-preference"):
            self.show_as("light", 1280, 1000, {"name": "prefers-reduced-motion", "value": motion})
            self.script("window.dots = []; window.watcher ??= new MutationObserver((records) => { for (const one of records)"
                        " for (const added of one.addedNodes) if (added.classList && added.classList.contains('pulse'))"
                        " dots.push([added.textContent, added.getAnimations().length, getComputedStyle(added).offsetPath]);"
                        " }); watcher.observe(document.getElementById('graph'), { childList: true, subtree: true })")
            first = second * 100
            self.give(delta(second, [], [
                step("door", first + number, second - 1 + number / 100, "doorHasLocked", "closing", "closed", cause="effect",
                     incarnation=2, sent=[{**event(START, first + number), "event": "start"}]) for number in range(count)]))
            return self.script("return dots")
        [[title, moves, path]] = pulses(20, 1)
        self.assertEqual([title, moves], ["start in " + START, 1])
        self.assertTrue(path.startswith("path("), path)
        self.wait(lambda: self.count("#graph .pulse") == 0)
        # The description of the wire names the last event.
        wire = ("const found = [...document.querySelectorAll('#graph .pipe')].find((one) =>"
                " one.textContent.includes(arguments[0]));")
        self.script(wire + "found.dispatchEvent(new PointerEvent('pointerenter'))", START)
        self.assertIn("last event: start", self.script(wire + "return found.querySelector('title').textContent", START))
        self.assertEqual(pulses(30, 1, motion="reduce"), [])
        self.wait(lambda: self.script("return performance.now() - (pulseTimes.get(arguments[0]).at(-1)) > 1000", START))
        self.assertEqual(len(pulses(40, 3)), 3)
        self.wait(lambda: self.script("return performance.now() - (pulseTimes.get(arguments[0]).at(-1)) > 1000", START))
        # A busy pipe has no dots; the width of its wire shows the rate.
        self.assertEqual(pulses(50, 20), [])

    def test_a_takeover_by_another_orchestrator_is_marked_across_all_lanes(self):
        found = ("const canvas = document.getElementById('spans'); const scale = canvas.width / drawnRange.width;"
                 " const place = (time) => (time - drawnRange.from) / (drawnRange.to - drawnRange.from) * drawnRange.width;"
                 " const color = (x, y) => [...canvas.getContext('2d').getImageData(x * scale, y * scale, 1, 1).data].slice(0, 3);"
                 " return [0, 1, 4].map((lane) => color(place(arguments[0]) - .5, AXIS + (lane + 1) * LANE_HEIGHT - 1))")
        marked = self.script("return getComputedStyle(document.documentElement).getPropertyValue('--doubt')")
        color = [int(marked.strip()[index:index + 2], 16) for index in (1, 3, 5)]
        self.assertNotIn(color, self.script(found, at(9)))
        self.give(delta(12, [], [{"is": "takeover", "time": at(9), "pid": 77, "former": 66, "adopted": 3}]))
        self.assertEqual(self.script(found, at(9)), [color] * 3)
        self.script("pointAt((arguments[0] - drawnRange.from) / (drawnRange.to - drawnRange.from) * drawnRange.width, AXIS + 5)",
                    at(9))
        self.assertEqual(self.text("#pointed"),
                         "10:00:09.000  Orchestrator 77 took over from 66 and adopted 3 processes")

    def test_the_address_of_an_instant_shows_the_same_step_again(self):
        # The time of the step is not a number of milliseconds.
        late = dict(step("motor", 3, 19, "start", "standing", "moving"), time=at(19) + 300_700)
        self.give(delta(20, [], [late]))
        self.choose("motor")
        self.look_back(self.script("return model.steps.length") - 1)
        self.assertEqual(self.cell("motor", 1), "moving")
        address = self.driver.current_url
        self.assertIn("#node=motor&at=1767261619000.301", address)
        self.driver.get("about:blank")
        self.driver.get(address)
        self.wait(self.is_ready)
        self.give(recording.WHOLE)
        self.give(delta(20, [], [late]))
        self.assertEqual([self.text("#h-node"), self.text("#moment"), self.cell("motor", 1)],
                         ["motor", "10:00:19.000", "moving"])
        # An address without an instant or an event shows the present.
        self.script("location.hash = 'node=door'")
        self.wait(lambda: self.text("#moment") == "now" and self.text("#h-node") == "door")
        self.script("location.hash = 'node=door&event=door@99'")
        self.wait(lambda: self.text("#answer") == "The event door@99 is not in memory.")

    def test_the_shown_contents_are_saved_as_a_file(self):
        with tempfile.TemporaryDirectory(prefix="prw-save-") as folder:
            self.driver.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": folder})

            def save():
                self.script("document.getElementById('save').click()")
                self.wait(lambda: [one for one in os.listdir(folder) if one.endswith(".json")])
                [name] = [one for one in os.listdir(folder) if one.endswith(".json")]
                self.assertTrue(name.startswith("house-2"), name)
                with open(os.path.join(folder, name)) as file:
                    contents = json.load(file)
                os.remove(os.path.join(folder, name))
                return contents
            saved = save()
            self.assertEqual([saved["topology"], saved["instant"]], ["house", None])
            self.assertEqual(len(saved["steps"]), self.script("return model.steps.length"))
            self.assertEqual(saved["steps"][1]["time"], at(1.02))
            self.assertEqual({one["name"]: one.get("state") for one in saved["nodes"]}["motor"], "standing")
            self.assertEqual([one["inFlight"] for one in saved["pipes"] if one["name"] == recording.ORDERS], [64])
            self.assertIn("3 persons have entered", [one["text"] for one in saved["lines"]])
            # An earlier instant, and only the followed event.
            self.script("showInstant(arguments[0]); follow(model.steps.find((one) => one.node === 'motor'))", at(4.01))
            self.drawn()
            saved = save()
            self.assertEqual(saved["instant"], "2026-01-01T10:00:04.010Z")
            self.assertEqual(saved["followed"], "motor@1")
            self.assertEqual([one["node"] for one in saved["steps"]], ["door", "door", "motor", "motor", "door"])
            self.assertEqual({one["name"]: one.get("state") for one in saved["nodes"]}["motor"], "moving")

    def test_a_page_of_an_ended_topology_shows_what_was_recorded(self):
        self.choose_door()
        ended = dict(recording.HOUSE, running=False, phase="down", reason="topology 'house' has stopped", nodes=[
            dict(one, running=False, pid=None, phase="down" if one["running"] else one["phase"]) for one in recording.HOUSE["nodes"]])
        self.give(delta(20, [ended]))
        self.assertEqual(self.text("#verdict"),
                         "Ended The topology has ended: topology 'house' has stopped. The page shows what it has recorded.")
        self.assertEqual(self.count("#remedy button") + self.count("#node [data-key=kill]") + self.count("#node [data-key=start]"), 0)
        self.assertEqual([self.cell("door", column) for column in (1, 2)], ["open(persons: 0)", "down"])
        self.assertEqual(self.cell("passengers", 2), "failed")
        self.assertEqual(self.count("#graph g[role=button]"), 10)
        self.assertEqual(self.count("#rows li"), 11)
        self.look_back(0)
        self.assertEqual(self.cell("motor", 2), "running")
        self.script("follow(model.steps.find((one) => one.node === 'motor'))")
        self.drawn()
        self.assertEqual(self.script("return followed.steps.length"), 5)

    def test_steps_of_instances_are_in_the_sequence_chart_and_have_causes(self):
        def of(instance, node, number, second, event, before, after, **others):
            return step(node, number, second, event, before, after, instance=f"{node}[{instance}]", **others)
        placed = "orders:paid->shipments:pack"
        nodes = [node("orders", "Order"), node("shipments", "Shipment")]
        self.give(delta(11, [
            dict(recording.HOUSE, nodes=nodes, pipes=[pipe(placed, "orders", "shipments")], composites=[]),
            state("orders", {"instances": {"paid": 2}}, 3, 10)], whole=True))
        self.give(delta(12, [], [
            of("4711", "orders", 1, 11, "pay", "placed", "paid", cause="client", sent=[event(placed, 1)]),
            of("4712", "orders", 2, 11.2, "pay", "placed", "paid", cause="client", sent=[event(placed, 2)]),
            dict(of("4712", "shipments", 1, 11.3, "pack", "waiting", "packed", source=event(placed, 2)), version=1)]))
        self.assertEqual(self.script("return [...document.querySelectorAll('#rows .label')].map((one) => one.textContent)"),
                         ["[4711] pay → paid", "[4712] pay → paid", "[4712] pack → packed"])
        self.script("follow(model.steps.at(-1))")
        self.drawn()
        self.assertIn("shipments[4712]: pack from orders[4712], waiting → packed", self.text("#story"))
        self.assertEqual(self.script("return followed.steps.map(nameOf)"), ["orders[4712]", "shipments[4712]"])
        self.assertIn("event=shipments%5B4712%5D%401", self.driver.current_url)
        # A step of an instance is not the state of its node.
        self.assertIn("paid: 2", self.cell("orders", 1))
        self.look_back(1)
        self.assertNotEqual(self.cell("orders", 1), "paid")
        self.assertEqual(self.script("return timelineLanes().map((lane) => lane.ticks.length)"), [2, 1])
        self.assertEqual(self.text("#skipped"), "")

    def test_the_state_chart_is_enlarged_and_reduced(self):
        self.choose_door()
        width = "return document.querySelector('#node .statechart').clientWidth"
        size = "return Number(document.querySelector('#node .statechart svg').getAttribute('width'))"
        before = [self.script(width), self.script(size)]
        self.tab_to("enlarge")
        self.keys(Keys.ENTER)
        self.wait(lambda: self.script(width) > 2 * before[0])
        self.drawn()
        self.wait(lambda: self.script(size) > before[1])
        self.assertEqual(self.focused(), "enlarge")
        self.keys(Keys.ENTER)
        self.wait(lambda: self.script(width) == before[0] and self.script(size) == before[1])


# Sends 1,000 steps to the page, and then 30 steps ten times a second. Its arguments are a reply without contents and the
# name of the section in sight.
LOAD = """
const done = arguments[2];
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
let [draws, added] = [0, 0];
const begin = startDrawing;
startDrawing = () => { draws += 1; begin(); };
setTimeout(() => {
  const watcher = new MutationObserver((records) => { for (const one of records) added += one.addedNodes.length; });
  watcher.observe(document.getElementById('h-' + arguments[1]).closest('section'), { childList: true, subtree: true });
  new PerformanceObserver((list) => tasks.push(...list.getEntries().map((one) => Math.round(one.duration))))
    .observe({ type: 'longtask' });
  let turns = 0;
  const timer = setInterval(() => {
    const start = performance.now();
    applyDelta(answer(30));
    requestAnimationFrame(() => setTimeout(() => work.push(performance.now() - start), 0));
    if ((turns += 1) < 60) return;
    clearInterval(timer);
    setTimeout(() => { watcher.disconnect(); done({ tasks, work: work.sort((a, b) => a - b), rows: sequence.rows.length, draws,
      added: added / Math.max(1, draws), elements: document.querySelectorAll('#rows li').length }); }, 500);
  }, 100);
}, 500);
"""
