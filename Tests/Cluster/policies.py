"""Enforces the cluster's NetworkPolicies for the pods of a host: `policies.py STATE`, on that host.

The rules of a pod are in its own network namespace, and are written again when pods, namespaces or policies change. The
rules take effect a moment after the pod has an address, so the first packets pass. A host always reaches its own pods,
and the resolver counts as a pod of kube-system with the label k8s-app=kube-dns. Port names and ranges are unsupported.
"""

import json
import os
import subprocess
import sys
import threading
from collections import namedtuple

from api import Api

RESOLVER = "10.77.0.10"
Peer = namedtuple("Peer", "namespace labels address")


def matches(selector, labels):
    """Returns whether a selector selects the labels; an empty selector selects all."""
    for key, value in (selector.get("matchLabels") or {}).items():
        if labels.get(key) != value:
            return False
    for each in selector.get("matchExpressions") or []:
        key, values = each["key"], each.get("values") or []
        holds = {
            "In": labels.get(key) in values,
            "NotIn": labels.get(key) not in values,
            "Exists": key in labels,
            "DoesNotExist": key not in labels,
        }[each["operator"]]
        if not holds:
            return False
    return True


def addresses(peer, namespace, pods, namespaces):
    """Returns the nft expressions for the addresses of an allowed peer; [] if no pod matches."""
    if "ipBlock" in peer:
        block = peer["ipBlock"]
        but = block.get("except")
        return [f"@ {block['cidr']}" + (f" ip @ != {{ {', '.join(but)} }}" if but else "")]
    found = []
    for pod in pods:
        if "namespaceSelector" in peer:
            if not matches(peer["namespaceSelector"] or {}, namespaces.get(pod.namespace, {})):
                continue
        elif pod.namespace != namespace:
            continue
        if matches(peer.get("podSelector") or {}, pod.labels):
            found.append(pod.address)
    return [f"@ {{ {', '.join(sorted(set(found)))} }}"] if found else []


def lines(direction, pod, policies, pods, namespaces):
    """Returns the nft rules for one direction of a pod's traffic; [] if no policy selects the pod."""
    kind, peers_of, side = {"input": ("Ingress", "from", "saddr"), "output": ("Egress", "to", "daddr")}[direction]
    rules, restricted = [], False
    for policy in policies:
        spec = policy["spec"]
        kinds = spec.get("policyTypes") or ["Ingress"] + (["Egress"] if "egress" in spec else [])
        if policy["metadata"]["namespace"] != pod.namespace or kind not in kinds:
            continue
        if not matches(spec.get("podSelector") or {}, pod.labels):
            continue
        restricted = True
        for rule in spec.get(kind.lower()) or []:
            peers = [
                f"ip {line.replace('@', side)}"
                for peer in rule.get(peers_of) or []
                for line in addresses(peer, pod.namespace, pods, namespaces)
            ]
            if not rule.get(peers_of):
                peers = [""]
            ports = [
                f"{each.get('protocol', 'TCP').lower()} dport {each['port']}"
                if "port" in each
                else f"meta l4proto {each.get('protocol', 'TCP').lower()}"
                for each in rule.get("ports") or []
            ]
            rules += [f"{peer} {port} accept" for peer in peers for port in ports or [""]]
    return [*dict.fromkeys(rules), "counter drop"] if restricted else []


def table(pod, gateway, *world):
    """Returns the nft table of a pod."""
    text = "add table inet pods\nflush table inet pods\ntable inet pods {\n"
    for direction in ("input", "output"):
        rules = lines(direction, pod, *world)
        if rules:
            device = {"input": "iif", "output": "oif"}[direction]
            always = ["ct state established,related accept", f"{device} lo accept", f"ip saddr {gateway} accept"]
            body = "\n".join(always + rules)
            text += f"chain {direction} {{ type filter hook {direction} priority 0; policy accept;\n{body}\n}}\n"
    return text + "}\n"


def interfaces():
    """Returns the network namespaces of this host's pods, by address."""
    known = {}
    for name in os.listdir("/run/netns") if os.path.isdir("/run/netns") else []:
        shown = subprocess.run(
            ["ip", "-n", name, "-j", "-4", "address", "show", "eth0"], capture_output=True, text=True, check=False
        )
        for link in json.loads(shown.stdout or "[]"):
            for each in link.get("addr_info", []):
                known[each["local"]] = name
    return known


def main():
    api = Api(sys.argv[1])
    kinds = ("/api/v1/pods", "/api/v1/namespaces", "/apis/networking.k8s.io/v1/networkpolicies")
    seen = {}
    changed = threading.Condition()

    def follow(path):
        for objects in api.watch(path):
            with changed:
                seen[path] = list(objects.values())
                changed.notify()

    for path in kinds:
        threading.Thread(target=follow, args=(path,), daemon=True).start()
    applied = {}
    while True:
        with changed:
            changed.wait()
            if len(seen) < len(kinds):
                continue
            pods, namespaces, policies = (seen[path] for path in kinds)
        labels = {each["metadata"]["name"]: each["metadata"].get("labels") or {} for each in namespaces}
        peers = [
            Peer(each["metadata"]["namespace"], each["metadata"].get("labels") or {}, each["status"]["podIP"])
            for each in pods
            if each["status"].get("podIP") and each["status"].get("phase") in ("Pending", "Running")
        ]
        peers.append(Peer("kube-system", {"k8s-app": "kube-dns"}, RESOLVER))
        here = interfaces()
        for pod in peers:
            name = here.get(pod.address)
            if not name:
                continue
            rules = table(pod, pod.address.rpartition(".")[0] + ".1", policies, peers, labels)
            if applied.get(name) != rules:
                command = ["ip", "netns", "exec", name, "nft", "-f", "-"]
                done = subprocess.run(command, input=rules, text=True, check=False)
                if done.returncode == 0:
                    applied[name] = rules
                else:
                    print(rules, flush=True)


main()
