"""Random faults for a topology in a cluster, drawn from a seed."""

import random
import time

from copies import COMMAND, NODES, kill


class Faults:
    """Injects random faults into a topology whose nodes are on n1 or n2, and whose orchestrator is on n1."""

    def __init__(self, topology, nodes, seed):
        self.topology, self.nodes = topology, nodes
        self.cluster = topology.cluster
        self.random = random.Random(seed)
        self.kinds = (
            self.delete_pod, self.delete_orchestrator, self.force, self.cut, self.cut, self.lose,
            self.kill_node, self.kill_agent, self.kill_orchestrator,
        )  # fmt: skip
        self.left = []

    def inject(self):
        """Injects the next fault and returns its description. Each kind occurs once before any kind repeats."""
        if not self.left:
            self.left = list(self.kinds)
            self.random.shuffle(self.left)
        return self.left.pop()()

    def pod(self):
        return self.random.choice(self.nodes)

    def seconds(self):
        return self.random.randint(5, 30)

    def delete(self, process, *options):
        name = self.topology.pod_name(process)
        self.topology.kubectl("delete", "pod", name, "--wait=false", *options, check=False)

    def delete_pod(self):
        node = self.pod()
        self.delete(node)
        return f"the pod of {node} deleted"

    def delete_orchestrator(self):
        self.delete("orchestrator")
        return "the orchestrator's pod deleted"

    def force(self):
        """Makes Kubernetes believe that a pod has ended that is still running."""
        node = self.random.choice([node for node in self.nodes if self.topology.node_of(node) == "n2"] or self.nodes)
        seconds = self.seconds()
        self.cluster("cut", "2")
        self.delete(node, "--force", "--grace-period=0")
        time.sleep(seconds)
        self.cluster("heal", "2")
        return f"the pod of {node} force-deleted while n2 was disconnected for {seconds} s"

    def cut(self):
        host, seconds = self.random.choice("12"), self.seconds()
        self.cluster("cut", host)
        time.sleep(seconds)
        self.cluster("heal", host)
        return f"n{host} disconnected for {seconds} s"

    def lose(self):
        host, seconds = self.random.choice("12"), self.seconds()
        self.cluster("lose", host)
        time.sleep(seconds)
        self.cluster("start", host)
        return f"n{host} without power for {seconds} s"

    def kill_node(self):
        node = self.pod()
        count = kill(self.cluster.prefix, self.topology.pod_name(node), NODES)
        return f"the process of {node} killed ({count} processes)"

    def kill_agent(self):
        node = self.pod()
        count = kill(self.cluster.prefix, self.topology.pod_name(node), COMMAND, is_first=True)
        return f"the agent of {node} killed ({count} processes)"

    def kill_orchestrator(self):
        count = kill(self.cluster.prefix, self.topology.pod_name("orchestrator"), COMMAND, is_first=True)
        return f"the orchestrator killed ({count} processes)"
