"""Runs topologies on a cluster of cluster.sh: `topologies.py DIR PREFIX PROGRAM SEED FAULTS`.

PROGRAM is the orchestrator that exports the topologies. The cluster has the image localhost/piperuntime:test with the
orchestrator and the node programs. First, hall.yaml sends numbers from one host to the other, and two nodes meet after
each number, while FAULTS random faults occur; prints their SEED. Then the elevator runs. The exit code is 1 if a check
fails.
"""

import json
import re
import sys
import time

from copies import Copies
from exported import HERE, Cluster, Topology, within
from faults import Faults

failures = []


def check(sentence, passes):
    print(f"passed: {sentence}" if passes else f"FAILED: {sentence}", flush=True)
    if not passes:
        failures.append(sentence)
    return passes


class Numbers:
    """The numbers that the source of hall.yaml sends, and the states that they must lead to."""

    def __init__(self, hall):
        self.hall = hall
        # The counts of numbers that were certainly sent, and possibly sent.
        self.least = self.most = 0

    def send(self, count, seconds=10):
        """Asks the source to send `count` numbers, until it accepts or the time is over."""

        def request():
            self.most += count
            return self.hall.run("send", "source", json.dumps({"go": {"count": count}}), check=False)

        if within(seconds, request):
            self.least += count

    def have_arrived(self):
        """Returns whether all numbers have arrived once and in order, with a meeting for each and one at the start."""
        rows = self.hall.rows()
        states = {name: row["state"] for name, row in rows.items()}
        sent = ((states.get("source") or {}).get("idle") or {}).get("sent", -1)
        met = {"willing": {"met": sent + 1, "steps": 0}}
        return (
            self.least <= sent <= self.most
            and states["sink"] == {"counting": {"last": sent, "count": sent, "wrong": 0}}
            and states["left"] == met
            and states["right"] == met
            and all(row["phase"] == "running" for row in rows.values())
        )

    def check(self, seconds=300):
        begin = time.monotonic()
        arrived = within(seconds, self.have_arrived)
        check(f"all {self.least} numbers have arrived once and in order, each followed by a meeting", arrived)
        print(f"    after {time.monotonic() - begin:.0f} s, {self.hall.incarnations()}", flush=True)
        if not arrived:
            self.hall.describe()
        return arrived


def run_hall(hall, seed, count):
    nodes = ["source", "sink", "left", "right", "pair"]
    if not check("all pods are ready", within(300, hall.are_ready)):
        hall.describe()
        return
    numbers = Numbers(hall)
    numbers.send(1_000)
    if not numbers.check():
        return
    if not change(hall, numbers):
        return
    faults = Faults(hall, nodes, seed)
    begin = time.monotonic()
    for number in range(1, count + 1):
        numbers.send(faults.random.randint(500, 3_000))
        time.sleep(faults.random.random())
        fault = faults.inject()
        print(f"    {time.monotonic() - begin:5.0f} s: fault {number}: {fault}", flush=True)
        # Only every third fault is followed by a check, so that the effects of faults overlap.
        if number % 3 == 0 or number == count:
            if not numbers.check():
                return
    check("all pods are ready in the end", within(120, hall.are_ready))


def change(hall, numbers):
    """Adds a node, and replaces the keys of another node."""
    before = hall.incarnations()
    hall.text = hall.text.replace("nodes:", "nodes:\n  lamp: { machine: Button, place: back }")
    hall.renew_keys("lamp")
    hall.apply()
    runs = within(120, lambda: hall.is_phase("lamp", "running"))
    added = check("an added node runs with keys of its own", runs)
    check("all other nodes keep running", {**hall.incarnations(), "lamp": 0} == {**before, "lamp": 0})
    hall.renew_keys("sink")
    hall.kubectl("rollout", "restart", "statefulset/hall-orchestrator", "statefulset/hall-sink")
    numbers.send(1_000, seconds=60)

    def has_restarted():
        now = hall.incarnations()
        return now.get("sink", 0) > before["sink"] and hall.are_ready()

    renewed = check("a node with replaced keys runs with the new keys", within(180, has_restarted))
    if not added or not renewed:
        hall.describe()
        return False
    return numbers.check()


def run_elevator(elevator, *_):
    if not check("all pods are ready", within(300, elevator.are_ready)):
        elevator.describe()
        return

    def accepts_events():
        before = {name: row["version"] for name, row in elevator.rows().items()}
        return within(
            90,
            lambda: before and all(row["version"] > before.get(n, 0) + 3 for n, row in elevator.rows().items()),
        )

    check("all nodes accept events", accepts_events())
    before = elevator.row("motor").get("incarnation")
    elevator.cluster("cut", "2")
    check("a node on a disconnected host is lost", within(30, lambda: elevator.is_phase("motor", "lost")))
    check("Kubernetes marks the host as unknown", within(60, lambda: elevator.cluster.node_is("n2", "Unknown")))
    elevator.cluster("heal", "2")
    check("the node is running when its host is back", within(60, lambda: elevator.is_phase("motor", "running")))
    check("the node's process is the same", elevator.row("motor").get("incarnation") == before)
    check("all nodes accept events", accepts_events())
    check("no event is missing", all(row["gaps"] == 0 for row in elevator.rows().values()))


def placed(text, places):
    """Returns the text of a topology file with a place for each of the given machines."""
    for machine, place in places.items():
        text = text.replace(f"{{ machine: {machine}", f"{{ place: {place}, machine: {machine}")
        text = re.sub(rf"\n( +)machine: {machine}\n", rf"\n\1place: {place}\n\1machine: {machine}\n", text)
    return text


def main():
    folder, prefix, program, seed, count = sys.argv[1:]
    seed, count = int(seed), int(count)
    texts = []
    for path in ("deployment.yaml", "hall.yaml", "../../topologies/elevator.yaml"):
        with open(f"{HERE}/{path}") as file:
            texts.append(file.read())
    deployment, hall, elevator = texts
    elevator = placed(elevator, {"ElevatorDoor": "front", "ElevatorMotor": "back", "FloorDisplay": "back"})

    cluster = Cluster(folder, prefix)
    copies = Copies(prefix)
    copies.start()
    for name, text, runs in (("hall", hall, run_hall), ("elevator", elevator, run_elevator)):
        with Topology(cluster, name, text, deployment, program) as topology:
            print(f"{name}, seed {seed}:", flush=True)
            runs(topology, seed, count)
    runs = sum(len(each) for each in copies.seen.values())
    print(f"    {runs} node processes in {len(copies.seen)} pods, in {copies.looks} samples")
    overlaps = copies.overlaps()
    print("".join(f"    {each}\n" for each in overlaps), end="")
    none = "hall-sink-0" in copies.seen and not overlaps
    check("no node process started before its predecessor had ended", none)
    return 1 if failures else 0


sys.exit(main())
