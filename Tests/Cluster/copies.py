"""The node processes on all hosts of a cluster. All hosts are on this machine, so /proc lists the processes."""

import os
import re
import signal
import threading
import time

NODES = {"nodes", "TestNodes"}
COMMAND = {"orchestrator"}


def processes(prefix, programs):
    """Yields the process id and the pod's name of each process in a pod that runs one of the programs."""
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
    """Kills the processes of a pod: all, only the init process, or all but that. Returns the number of processes."""
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
    """Watches whether a node process starts while another process of a pod with the same name is still running."""

    def __init__(self, prefix):
        super().__init__(daemon=True)
        self.prefix = prefix
        # {pod's name: {(process id, start): (start, last time seen)}}. Unit: seconds since boot.
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
                # A zombie no longer runs.
                if fields[0] not in "ZX":
                    started = int(fields[19]) / ticks
                    self.seen.setdefault(pod, {})[pid, started] = (started, now)
            self.looks += 1
            time.sleep(0.2)

    def overlaps(self):
        """Returns the pairs of processes of one pod name that ran at the same time, as text."""
        found = []
        for pod, runs in self.seen.items():
            ordered = sorted((started, last, pid) for (pid, _), (started, last) in runs.items())
            for (_, last, first), (started, _, second) in zip(ordered, ordered[1:]):
                if started + 0.02 < last:
                    found.append(f"{pod}: process {second} started {last - started:.2f} s before process {first} ended")
        return found
