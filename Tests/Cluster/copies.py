"""The processes of nodes on all hosts of a cluster, which are processes of this machine."""

import os
import re
import signal
import threading
import time

NODES = {"nodes", "TestNodes"}
COMMAND = {"orchestrator"}


def processes(prefix, programs):
    """All that run one of the programs in a pod: the process id, and the pod's name."""
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.path.basename(os.readlink(f"/proc/{entry}/exe")) not in programs:
                continue
            with open(f"/proc/{entry}/cgroup") as file:
                host = re.search(f"/({prefix}-[0-9]+)/", file.read())
            with open(f"/proc/{entry}/root/etc/hostname") as file:
                pod = file.read().strip()
        except OSError:
            continue
        if host:
            yield int(entry), pod


def kill(prefix, pod, programs, is_first=None):
    """SIGKILL to the processes of a pod, to the first alone, or to all but that. Returns how many there were."""
    killed = 0
    for pid, name in processes(prefix, programs):
        try:
            with open(f"/proc/{pid}/status") as file:
                first = re.search(r"^NSpid:.*\t1$", file.read(), re.MULTILINE) is not None
            if name == pod and is_first in (None, first):
                os.kill(pid, signal.SIGKILL)
                killed += 1
        except OSError:
            continue
    return killed


class Copies(threading.Thread):
    """Looks all the time whether a process of a node starts while another one of the same pod's name still lives."""

    def __init__(self, prefix):
        super().__init__(daemon=True)
        self.prefix = prefix
        # By the pod's name, and the process's id and start: when it started, and when it was seen last. Unit: seconds.
        self.seen = {}
        self.looks = 0

    def run(self):
        ticks = os.sysconf("SC_CLK_TCK")
        while True:
            for pid, pod in processes(self.prefix, NODES):
                now = time.clock_gettime(time.CLOCK_BOOTTIME)
                try:
                    with open(f"/proc/{pid}/stat") as file:
                        fields = file.read().rpartition(")")[2].split()
                except OSError:
                    continue
                # A process that has ended and was not waited for does nothing any more.
                if fields[0] not in "ZX":
                    started = int(fields[19]) / ticks
                    self.seen.setdefault(pod, {})[pid, started] = (started, now)
            self.looks += 1
            time.sleep(0.2)

    def twice(self):
        """Pairs of processes of one name of which the second started before the first had ended."""
        found = []
        for pod, runs in self.seen.items():
            ordered = sorted((started, last, pid) for (pid, _), (started, last) in runs.items())
            for (_, last, first), (started, _, second) in zip(ordered, ordered[1:]):
                if started + 0.02 < last:
                    found.append(f"{pod}: {second} started {last - started:.2f} s before {first} was seen last")
        return found
