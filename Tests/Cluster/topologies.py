"""Runs topologies on a Kubernetes that cluster.sh runs: `topologies.py DIR PREFIX PROGRAM SEED FAULTS`.

PROGRAM is the orchestrator that exports them; the nodes of the cluster know the image localhost/piperuntime:test with
it and the nodes' programs. Numbers go from one host to the other, and two meet at each, while faults happen: FAULTS of
them, by the SEED, which is printed. Then the elevator runs. The exit code is 1 where something does not
hold.
"""

import json
import re
import sys
import time

from copies import Copies
from exported import HERE, Cluster, Topology, within
from faults import Faults

failures = []


def check(sentence, holds):
    print(f"holds: {sentence}" if holds else f"DOES NOT HOLD: {sentence}", flush=True)
    if not holds:
        failures.append(sentence)
    return holds


class Numbers:
    """What the source of hall.yaml is told to send, and what has come of it."""

    def __init__(self, hall):
        self.hall = hall
        # What was surely sent, and what may have been.
        self.least = self.most = 0

    def send(self, count, seconds=10):
        """Sends so many, unless nobody takes them in that time."""

        def sent():
            self.most += count
            return self.hall.run("send", "source", json.dumps({"go": {"count": count}}), check=False)

        if within(seconds, sent):
            self.least += count

    def have_come(self):
        """Whether all have come once and in order, and both have met at each, and at the beginning."""
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
        come = within(seconds, self.have_come)
        check(f"all {self.least} numbers have come once and in order, and both have met at each", come)
        print(f"    after {time.monotonic() - begin:.0f} s, {self.hall.incarnations()}", flush=True)
        if not come:
            self.hall.describe()
        return come


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
        told = faults.one()
        print(f"    {time.monotonic() - begin:5.0f} s: fault {number}: {told}", flush=True)
        # Faults come before the one before is over, too.
        if number % 3 == 0 or number == count:
            if not numbers.check():
                return
    check("all pods are ready in the end", within(120, hall.are_ready))


def change(hall, numbers):
    """Adds a process, and gives another one other keys."""
    before = hall.incarnations()
    hall.text = hall.text.replace("nodes:", "nodes:\n  lamp: { machine: Button, place: back }")
    hall.renew("lamp")
    hall.go_over()
    runs = within(120, lambda: hall.is_phase("lamp", "running"))
    added = check("a process that is added runs with keys of its own", runs)
    check("all others go on as they are", {**hall.incarnations(), "lamp": 0} == {**before, "lamp": 0})
    hall.renew("sink")
    hall.kubectl("rollout", "restart", "statefulset/hall-orchestrator", "statefulset/hall-sink")
    numbers.send(1_000, seconds=60)

    def came_anew():
        now = hall.incarnations()
        return now.get("sink", 0) > before["sink"] and hall.are_ready()

    renewed = check("a process whose keys were renewed runs with the new ones", within(180, came_anew))
    if not added or not renewed:
        hall.describe()
        return False
    return numbers.check()


def run_elevator(elevator, *_):
    if not check("all pods are ready", within(300, elevator.are_ready)):
        elevator.describe()
        return

    def goes_on():
        before = {name: row["version"] for name, row in elevator.rows().items()}
        return within(
            90,
            lambda: before and all(row["version"] > before.get(n, 0) + 3 for n, row in elevator.rows().items()),
        )

    check("all nodes take events", goes_on())
    before = elevator.row("motor").get("incarnation")
    elevator.cluster("cut", "2")
    check("a node whose host is cut off is lost", within(30, lambda: elevator.is_phase("motor", "lost")))
    check("Kubernetes gives the host up", within(60, lambda: elevator.cluster.node_is("n2", "Unknown")))
    elevator.cluster("heal", "2")
    check("it is running again when the host is back", within(60, lambda: elevator.is_phase("motor", "running")))
    check("being the same process", elevator.row("motor").get("incarnation") == before)
    check("all nodes take events", goes_on())
    check("no event is missing", all(row["gaps"] == 0 for row in elevator.rows().values()))


def placed(text, places):
    """A topology file with places for nodes, by their machines."""
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
    print(f"    {runs} processes of nodes in {len(copies.seen)} pods, looked at {copies.looks} times")
    twice = copies.twice()
    print("".join(f"    {each}\n" for each in twice), end="")
    none = "hall-sink-0" in copies.seen and not twice
    check("no process of a node ever started before the one before it had ended", none)
    return 1 if failures else 0


sys.exit(main())
