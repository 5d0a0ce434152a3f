"""Recorded replies of an inspector for a small topology, with fixed times.

A page with these replies looks the same in each run, so tests can compare it with golden pictures. Tests can also send
replies that a running topology would cause only by chance.
"""

BEGIN = 1_767_261_600_000_000_000   # 2026-01-01, 10:00 UTC.
CURSOR = 1 << 20


def at(seconds):
    return BEGIN + round(seconds * 1000) * 1_000_000


def node(name, hosts=None, kind="machine", **others):
    return {"name": name, "kind": kind, "hosts": hosts, "within": None, "phase": "running", "running": True,
            "reason": None, "pid": 4000 + len(name), "incarnation": 1, "restarts": 0,
            "durability": "process", **others}


def pipe(name, sender, receiver, capacity=1024):
    return {"name": name, "from": sender, "to": receiver, "capacity": capacity}


def counts(events, letters=0, blocked=(), outs=(), ins=()):
    return {"events": events, "refused": 0, "deadLetters": letters, "effects": 0, "gaps": 0,
            "blocked": list(blocked), "outs": list(outs), "ins": list(ins)}


def end(name, events, waiting=0, capacity=1024, applied=None):
    return {"name": name, "events": events, "applied": events - waiting if applied is None else applied,
            "waiting": waiting, "capacity": capacity}


def state(name, value, version, seconds, counted=None, incarnation=1, doubts=(), **others):
    return {"is": "state", "node": name, "incarnation": incarnation, "version": version, "time": at(seconds),
            "cause": "pipe", "case": value if isinstance(value, str) else None, "doubts": list(doubts),
            "state": value, "counts": counted or counts(version), **others}


def step(name, index, seconds, event, before, after, cause="pipe", incarnation=1, **others):
    return {"node": name, "incarnation": incarnation, "index": index, "version": index, "time": at(seconds),
            "event": event, "from": before, "state": after, "sent": [],
            "cause": others["source"]["pipe"] if "source" in others else cause, **others}


def event(name, number):
    return {"pipe": name, "stream": 7, "number": number}


def life(name, seconds, phase, former, running, restarts=0, incarnation=1, **others):
    return {"is": "life", "node": name, "time": at(seconds), "phase": phase, "running": running,
            "restarts": restarts, "incarnation": incarnation, "reason": None,
            "again": former.get("incarnation", incarnation) != incarnation,
            "former": {"incarnation": incarnation, "restarts": restarts, "reason": None, **former}, **others}


def line(name, seconds, text, stream="out", **others):
    return {"node": name, "time": at(seconds), "stream": stream, "text": text, "large": None, **others}


def delta(seconds, standing=(), happened=(), written=(), **others):
    """Returns a reply to /api/changes. Its time and cursor are computed from `seconds`."""
    return {"cursor": str(CURSOR + round(seconds * 1000)), "time": at(seconds), "whole": False, "skipped": 0,
            "unwritten": 0, "standing": list(standing), "happened": list(happened), "written": list(written),
            **others}


def transition(before, event, after, isGuarded=False, doubt=None):
    return {"from": before, "event": event, "to": after, "kind": "external", "isGuarded": isGuarded, "doubt": doubt}


ARRIVALS = "motor:arrived->door:openButtonWasPressed"
START = "door:closed->motor:start"
BOARDING = "passengers:boarding->door:personsHaveEntered"
ORDERS = "till.orders->kitchen.orders"

HOUSE = {
    "is": "topology", "topology": "house", "file": "/home/me/house.yaml", "phase": "degraded",
    "running": True, "reason": None,
    "nodes": [
        node("door", "ElevatorDoor", restarts=1, incarnation=2),
        node("motor", "ElevatorMotor"),
        node("passengers", "Passengers", phase="failed", running=False, pid=None, restarts=3,
             reason="exited with code 1, 4 times in 10 s: it is not started again"),
        node("philosopher1", "Philosopher"),
        node("fork1", "Fork"),
        node("fork2", "Fork"),
        node("till", "Till"),
        node("kitchen", "Kitchen"),
        node("sign", kind="constant"),
        node("seat1", kind="composite"),
    ],
    "composites": [{"name": "seat1", "nodes": ["philosopher1", "fork1", "fork2"]}],
    "pipes": [pipe(ARRIVALS, "motor", "door"), pipe(START, "door", "motor"),
              pipe(BOARDING, "passengers", "door"), pipe(ORDERS, "till", "kitchen", 64)],
}

TAKE = [
    step(name, 1, 2.5, "take", before, after, cause="seat1", transaction="1.1")
    for name, before, after in [("philosopher1", "thinking", "eating"), ("fork1", "free", "held"),
                                ("fork2", "free", "held")]]
STEPS = [
    step("passengers", 1, 1, "called", "waiting", {"boarding": {"persons": 3}}, cause="effect", effect=0,
         sent=[event(BOARDING, 1)]),
    step("door", 1, 1.02, {"personsHaveEntered": {"persons": 3}}, {"open": {"persons": 0}}, {"open": {"persons": 3}},
         source=event(BOARDING, 1)),
    step("door", 2, 2, "closeButtonWasPressed", {"open": {"persons": 3}}, {"closing": {"persons": 3}},
         cause="client"),
    *TAKE,
    step("door", 3, 4, "doorHasLocked", {"closing": {"persons": 3}}, "closed", cause="effect",
         effect=2, sent=[event(START, 1)]),
    step("motor", 1, 4.01, "start", "standing", "moving", source=event(START, 1)),
    life("passengers", 5, "failed", {"phase": "running", "running": True}, False, restarts=3),
    life("door", 6, "starting", {"phase": "running", "running": True, "incarnation": 1}, False, restarts=1,
         incarnation=2),
    life("door", 6.1, "running", {"phase": "starting", "running": False}, True, restarts=1, incarnation=2),
    step("motor", 2, 8, "floorReached", "moving", "standing", cause="effect", effect=1,
         sent=[event(ARRIVALS, 1)]),
    step("door", 4, 8.01, "openButtonWasPressed", "closed", {"open": {"persons": 0}},
         source=event(ARRIVALS, 1), incarnation=2),
]
STANDING = [
    HOUSE,
    state("door", {"open": {"persons": 0}}, 4, 8.01, counts(4, letters=2, outs=[end(START, 1)], ins=[
        end(ARRIVALS, 1), end(BOARDING, 1)]), incarnation=2),
    state("motor", "standing", 2, 8, counts(2, outs=[end(ARRIVALS, 1)], ins=[end(START, 1)])),
    state("philosopher1", "eating", 1, 2.5),
    state("fork1", "held", 1, 2.5),
    state("fork2", "held", 1, 2.5, doubts=[{
        "participant": "fork2", "composite": "seat1", "event": "release", "transaction": "1.2"}]),
    state("till", {"open": {"orders": 1200}}, 1200, 7.9, counts(
        1200, blocked=[ORDERS], outs=[end(ORDERS, 1200, waiting=64, capacity=64)])),
    state("kitchen", {"cooking": {"dish": "dumplings with a sauce whose name is long"}}, 1136, 7.9, counts(
        1136, ins=[end(ORDERS, 1136, waiting=16)])),
    state("sign", {"notice": {"text": "<img src=x onerror=\"document.title='taken'\">"}}, 0, 0),
    state("seat1", "eating", 1, 2.5),
]
LINES = [
    line("door", 0.1, "started as process 4004", "note"),
    line("door", 1.02, "3 persons have entered"),
    line("kitchen", 3, "the stove is hot: " + "very " * 80 + "hot"),
    line("passengers", 5, "Fatal error: nobody is left", "err"),
    line("passengers", 5, "exited with code 1, 4 times in 10 s: it is not started again", "note"),
    line("door", 6, "killed by SIGKILL; restart 1 of 5 in 192 ms", "note"),
    line("door", 6.1, "started as process 4104", "note"),
]
FULL = "kitchen has been in cooking for 12 s, 16 events waiting → till is blocked (64 of 64)"
LOST = "passengers has failed: exited with code 1, 4 times in 10 s: it is not started again"
HEALTH = {
    "is": "health", "severity": "failure", "summary": LOST + " (and 3 more)",
    "diagnoses": [
        {"severity": "failure", "cause": "notRunning", "node": "passengers", "text": LOST,
         "command": "orchestrator start passengers", "starts": "passengers", "blocked": []},
        {"severity": "failure", "cause": "undecided", "node": "seat1", "command": None, "starts": None,
         "text": "Stuck: fork2 waits for seat1 (release in doubt for 7 s)", "blocked": []},
        {"severity": "warning", "cause": "notKeepingUp", "node": "kitchen", "text": FULL, "command": None,
         "starts": None, "blocked": []},
        {"severity": "warning", "cause": "deadLetters", "node": "door", "text": "door: 2 dead letters",
         "command": "orchestrator dead-letters door", "starts": None, "blocked": []}]}
STANDING.append(HEALTH)
WHOLE = delta(10, STANDING, STEPS, LINES, whole=True)

# Moments that an operator has to understand: a topology that is stuck, and a node after a kill.
RELAY = ["r1.out->r2.in", "r2.out->r3.in", "r3.out->tally.in"]


def relay(third, phase="running", **others):
    return {"is": "topology", "topology": "relay", "file": "/home/me/relay.yaml", "phase": phase, "running": True,
            "reason": None, "composites": [], "pipes": [
                pipe(name, *[end.split(".")[0] for end in name.split("->")], 4) for name in RELAY],
            "nodes": [node("r1", "Relay"), node("r2", "Relay"), node("r3", "Relay", **third), node("tally", "Tally")],
            **others}


def token(name, number, second, **others):
    receives = {"r2": RELAY[0], "r3": RELAY[1], "tally": RELAY[2]}.get(name)
    sends = {"r1": RELAY[0], "r2": RELAY[1], "r3": RELAY[2]}.get(name)
    counted = {"counted": {"count": number, "last": number}} if name == "tally" else "idle"
    return step(name, number, second, {"token": {"n": number}}, "idle", counted,
                **({"source": event(receives, number)} if receives else {"cause": "client"}),
                sent=[event(sends, number)] if sends else [], **others)


def health(severity, *diagnoses):
    found = [{"severity": severity, "cause": cause, "node": name, "text": text, "command": None, "starts": starts,
              "blocked": []} for cause, name, text, starts in diagnoses]
    return {"is": "health", "severity": severity, "summary": found[0]["text"], "diagnoses": found}


PASSED = [token(name, number, number + place / 50) for number in (1, 2) for place, name in enumerate(["r1", "r2", "r3", "tally"])]
STUCK = delta(30, [
    relay({"phase": "stopped", "running": False, "pid": None}, phase="degraded"),
    state("r1", "idle", 10, 8, counts(10, blocked=[RELAY[0]], outs=[end(RELAY[0], 10, waiting=4, capacity=4, applied=6)])),
    state("r2", "idle", 6, 8, counts(6, blocked=[RELAY[1]], outs=[end(RELAY[1], 6, waiting=4, capacity=4, applied=2)], ins=[
        end(RELAY[0], 10, waiting=4, capacity=4, applied=6)])),
    state("r3", "idle", 2, 2.04, counts(2, outs=[end(RELAY[2], 2, capacity=4)], ins=[end(RELAY[1], 2, capacity=4)])),
    state("tally", {"counted": {"count": 2, "last": 2}}, 2, 2.06, counts(2, ins=[end(RELAY[2], 2, capacity=4)])),
    health("failure", ("notRunning", "r3", "Stuck: r3 is stopped → r2 is blocked (4 of 4) → r1 is blocked (4 of 4)", "r3")),
], [*PASSED, life("r3", 4, "stopped", {"phase": "running", "running": True}, False),
    *[token("r1", number, 4 + number / 2) for number in range(3, 11)], *[token("r2", number, 4.02 + number / 2) for number in range(3, 7)]],
    [line("r3", 0.1, "started as process 4002", "note"), line("r3", 4, "stopped", "note"), line("r1", 9, "more tokens")], whole=True)
KILLED = delta(12, [
    relay({"pid": 4711, "restarts": 1, "incarnation": 2}),
    *[state(name, "idle", 3, 9, counts(3)) for name in ("r1", "r2")],
    state("r3", "idle", 3, 9.04, counts(3, letters=1), incarnation=2),
    state("tally", {"counted": {"count": 3, "last": 3}}, 3, 9.06, counts(3)),
    health("warning", ("restarted", "r3", "r3 was restarted, 4 s ago", None), ("deadLetters", "r3", "r3: 1 dead letter", None)),
], [*PASSED, life("r3", 7, "starting", {"phase": "running", "running": True, "incarnation": 1}, False, restarts=1, incarnation=2),
    life("r3", 7.4, "running", {"phase": "starting", "running": False}, True, restarts=1, incarnation=2),
    {"is": "takeover", "time": at(8), "pid": 77, "former": 66, "adopted": 4},
    *[token(name, 3, 9 + place / 50, incarnation=2 if name == "r3" else 1) for place, name in enumerate(["r1", "r2", "r3", "tally"])]],
    [line("r3", 7, "killed by SIGKILL; restart 1 of 5 in 192 ms", "note"), line("r3", 7.4, "started as process 4711", "note")], whole=True)

REPLIES = {
    "/api/about": {"readOnly": False},
    "/api/chart": {
        "node": "door", "machine": "ElevatorDoor", "initial": "open", "notes": [],
        "states": [
            {"name": "open", "fields": ["persons: Int"], "isReached": True, "isEnd": False},
            {"name": "closing", "fields": ["persons: Int"], "isReached": True, "isEnd": False},
            {"name": "closed", "fields": [], "isReached": True, "isEnd": False}],
        "transitions": [
            transition("open", "personsHaveEntered", "open", isGuarded=True, doubt="dependsOnValues"),
            transition("open", "closeButtonWasPressed", "closing"),
            transition("closing", "openButtonWasPressed", "open"),
            transition("closing", "doorHasLocked", "closed"),
            transition("closed", "openButtonWasPressed", "open")]},
    "/api/enabled": {"name": "door", "kind": "machine", "version": 4, "events": [
        {"event": "doorHasLocked", "composite": None, "verdict": "blocked", "participants": ["door"],
         "fields": [], "because": [{"participant": "door", "state": {"open": {"persons": 0}},
                                    "reason": "the state has no transition for the event"}]},
        {"event": "closeButtonWasPressed", "composite": None, "verdict": "enabled", "participants": ["door"],
         "fields": [], "because": []},
        {"event": "personsHaveEntered", "composite": None, "verdict": "dependsOnValue",
         "participants": ["door"], "fields": [{"name": "persons", "type": "Int"}],
         "because": []}]},
    "/api/dead-letters": [
        {"id": 1, "event": "openButtonWasPressed", "pipe": ARRIVALS, "reason": "not in 'open'"},
        {"id": 2, "event": {"personsHaveEntered": {"persons": 90}}, "pipe": BOARDING,
         "reason": "at most 8 persons"}],
    "/api/control": {"outcome": "started"},
    "/api/send": {"outcome": "accepted", "version": 5, "state": {"open": {"persons": 3}}},
}

# Replaces the inspector: answers the page's requests from the recording, except requests for the layout of the graph,
# which the inspector answers from the request alone. `recorded.give` sends a reply to
# /api/changes, and `recorded.asked` is the list of all other requests.
INSPECTOR = """
window.recorded = { replies: %s, given: [], waiting: null, asked: [], give(answer) {
  recorded.given.push(answer);
  recorded.deliver();
}, deliver() {
  if (!recorded.waiting || !recorded.given.length) return;
  const answer = recorded.waiting;
  recorded.waiting = null;
  answer(recorded.response(recorded.given.shift()));
}, response(value) {
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  return new Response(text, { headers: { 'Content-Type': 'application/json' } });
} };
const inspector = window.fetch;
window.fetch = (address, options) => new Promise((answer) => {
  const path = new URL(address, location).pathname;
  if (path === '/api/changes') { recorded.waiting = answer; recorded.deliver(); return; }
  if (path === '/api/layout') { answer(inspector(address, options)); return; }
  recorded.asked.push(address + (options.body ? ' ' + options.body : ''));
  answer(recorded.response(recorded.replies[path]));
});
"""
