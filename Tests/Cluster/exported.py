"""A cluster of cluster.sh, and the topologies that are exported to it."""

import base64
import json
import os
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.realpath(__file__))


class Cluster:
    def __init__(self, folder, prefix):
        self.folder, self.prefix = os.path.realpath(folder), prefix

    def __call__(self, *arguments):
        """Runs a command of cluster.sh."""
        done = subprocess.run([f"{HERE}/cluster.sh", self.folder, self.prefix, *arguments], check=False)
        if done.returncode != 0:
            sys.exit(f"error: cluster.sh failed: {' '.join(arguments)}")

    def kubectl(self, *arguments, given=None, check=True, seconds=20):
        """Runs kubectl and returns its output. On an error or a timeout, exits, or returns '' without `check`."""
        state = f"{self.folder}/{self.prefix}"
        command = ["ip", "netns", "exec", f"{self.prefix}-0", f"{self.folder}/bin/kubectl"]
        command += ["--kubeconfig", f"{state}/admin.yaml", *arguments]
        try:
            done = subprocess.run(
                command, input=given, capture_output=True, text=True, check=False, timeout=seconds
            )
        except subprocess.TimeoutExpired:
            done = subprocess.CompletedProcess(command, 124, "", f"no answer in {seconds} s")
        if done.returncode == 0:
            return done.stdout
        if check:
            sys.exit(f"error: kubectl {' '.join(arguments)}: {done.stderr.strip()}")
        return ""

    def node_is(self, node, ready):
        path = '{.status.conditions[?(@.type=="Ready")].status}'
        return self.kubectl("get", "node", node, "-o", f"jsonpath={path}", check=False) == ready


class Topology:
    """A topology that is exported to the cluster, in a namespace with the topology's name."""

    def __init__(self, cluster, name, text, deployment, program):
        self.cluster, self.name, self.text = cluster, name, text
        self.deployment, self.program = deployment, program
        self.manifests, self.secrets = self.export(), self.export("--secrets")

    def export(self, *options, key=None):
        """Returns the exported manifests. With a client key, exports for the orchestrator that accepts this key."""
        with tempfile.TemporaryDirectory() as folder:
            paths = [f"{folder}/{name}" for name in (f"{self.name}.yaml", "deployment.yaml", "client.key")]
            for path, content in zip(paths, (self.text, self.deployment, key or "")):
                with open(path, "w", opener=lambda path, flags: os.open(path, flags, 0o600)) as target:
                    target.write(content)
            command = [self.program, "export", "kubernetes", paths[0], *options, "--deployment", paths[1]]
            command += ["--key", paths[2]] if key else []
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"error: exporting topology '{self.name}' failed: {done.stderr.strip()}")
        return done.stdout

    def __enter__(self):
        """Starts the topology, with the orchestrator on n1."""
        kubectl = self.cluster.kubectl
        kubectl("create", "namespace", self.name)
        within(20, lambda: kubectl("-n", self.name, "get", "serviceaccount", "default", check=False))
        kubectl("cordon", "n2")
        kubectl("apply", "-f", "-", given=self.secrets, seconds=240)
        kubectl("apply", "-f", "-", given=self.manifests, seconds=240)
        within(60, lambda: self.pod("orchestrator").get("spec", {}).get("nodeName"))
        kubectl("uncordon", "n2")
        return self

    def __exit__(self, *_):
        self.cluster.kubectl("delete", "namespace", self.name, "--timeout=90s", check=False, seconds=100)

    def renew_keys(self, process):
        """Creates keys for a process, or replaces its keys. All other processes keep their keys."""
        path = "jsonpath={.data.client\\.key}"
        key = self.kubectl("get", "secret", f"{self.name}-orchestrator", "-o", path)
        secret = self.export(process, "--secrets", key=base64.b64decode(key).decode())
        self.kubectl("apply", "-f", "-", given=secret)

    def apply(self):
        """Applies the current text of the topology."""
        self.kubectl("apply", "-f", "-", given=self.export(), seconds=240)

    def pod_name(self, process):
        return f"{self.name}-{process}-0"

    def kubectl(self, *arguments, **options):
        return self.cluster.kubectl("-n", self.name, *arguments, **options)

    def pod(self, process):
        answer = self.kubectl("get", "pod", self.pod_name(process), "-o", "json", check=False)
        return json.loads(answer) if answer else {}

    def node_of(self, process):
        return self.pod(process).get("spec", {}).get("nodeName")

    def are_ready(self):
        """Returns whether there are pods and all of them are ready."""
        pods = json.loads(self.kubectl("get", "pods", "-o", "json", check=False) or "{}").get("items", [])
        return bool(pods) and all(
            any(each["type"] == "Ready" and each["status"] == "True" for each in pod["status"].get("conditions", []))
            for pod in pods
        )

    def run(self, *arguments, check=True):
        """Runs an orchestrator command in the orchestrator's pod."""
        return self.kubectl("exec", self.pod_name("orchestrator"), "--", "orchestrator", *arguments, check=check)

    def rows(self):
        """Returns the rows of `ps` by node; {} if the orchestrator does not answer."""
        return {row["node"]: row for row in json.loads(self.run("ps", "-o", "json", check=False) or "[]")}

    def row(self, node):
        return self.rows().get(node, {})

    def is_phase(self, node, phase):
        return self.row(node).get("phase") == phase

    def incarnations(self):
        return {name: row["incarnation"] for name, row in self.rows().items()}

    def describe(self):
        """Prints the pods, the nodes and the orchestrator's log, to diagnose a failure."""
        texts = [self.kubectl("get", "pods", "-o", "wide", check=False), self.run("ps", check=False)]
        texts.append(self.kubectl("logs", "--tail=60", self.pod_name("orchestrator"), check=False))
        print("\n".join(texts), file=sys.stderr, flush=True)


def within(seconds, condition):
    """Waits until a condition is true. Returns False after the given time."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.2)
    return True


def stays(seconds, condition):
    """Returns whether a condition stays true for the given time."""
    return not within(seconds, lambda: not condition())
