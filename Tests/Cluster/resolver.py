"""Resolves the names of a cluster's Services: `resolver.py STATE ADDRESS`, by UDP at port 53 of ADDRESS.

SERVICE.NAMESPACE.svc.cluster.local resolves to the addresses of the Service's endpoints, and
HOSTNAME.SERVICE.NAMESPACE.svc.cluster.local to the address of that pod. A Service with a cluster IP resolves to its
endpoints as well, since nothing forwards cluster IPs in the tests' cluster. Other names are unknown.
"""

import socket
import struct
import sys
import threading

from api import Api

DOMAIN = "svc.cluster.local"
SECONDS = 2
NXDOMAIN = 3
A, AAAA = 1, 28


def names(endpoints):
    """Returns the addresses by name."""
    known = {}
    for (namespace, service), item in endpoints.items():
        name = f"{service}.{namespace}.{DOMAIN}"
        known.setdefault(name, [])
        for subset in item.get("subsets") or []:
            for address in subset.get("addresses") or []:
                known[name].append(address["ip"])
                if address.get("hostname"):
                    known.setdefault(f"{address['hostname']}.{name}", []).append(address["ip"])
    return known


def question(query):
    """Returns the name in a query in lower case, the record type, and the end of the question."""
    labels, at = [], 12
    while query[at]:
        labels.append(query[at + 1 : at + 1 + query[at]].decode("ascii").lower())
        at += 1 + query[at]
    (kind,) = struct.unpack_from("!H", query, at + 1)
    return ".".join(labels), kind, at + 5


def answer(query, known):
    name, kind, end = question(query)
    (flags,) = struct.unpack_from("!H", query, 2)
    addresses = known.get(name, []) if kind == A else []
    # An authoritative answer that claims recursion, and repeats the query's flag for it.
    flags = 0x8480 | flags & 0x0100 | (0 if name in known else NXDOMAIN)
    head = query[:2] + struct.pack("!HHHHH", flags, 1, len(addresses), 0, 0)
    records = [struct.pack("!HHHIH", 0xC00C, A, 1, SECONDS, 4) + socket.inet_aton(each) for each in addresses]
    return head + query[12:end] + b"".join(records)


def main():
    state, address = sys.argv[1:]
    known = {}

    def follow():
        nonlocal known
        for endpoints in Api(state).watch("/api/v1/endpoints"):
            known = names(endpoints)

    threading.Thread(target=follow, daemon=True).start()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind((address, 53))
        while True:
            query, client = server.recvfrom(512)
            try:
                server.sendto(answer(query, known), client)
            except (IndexError, ValueError, struct.error) as error:
                print(f"{client[0]}: {error}", flush=True)


main()
