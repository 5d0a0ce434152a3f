"""Answers the names of a cluster's Services: `resolver.py STATE ADDRESS`, by UDP at port 53 of ADDRESS.

SERVICE.NAMESPACE.svc.cluster.local has the addresses of the Service's endpoints, and
HOSTNAME.SERVICE.NAMESPACE.svc.cluster.local the one of that pod. A Service with an address of its own, which nothing
forwards in the tests' cluster, is answered in the same way. Other names are unknown.
"""

import socket
import struct
import sys
import threading

from api import Api

DOMAIN = "svc.cluster.local"
SECONDS = 2
NOT_KNOWN = 3
A, AAAA = 1, 28


def names(endpoints):
    """The addresses of each name."""
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
    """The name that a query asks for, in lower case, the type, and where the question ends."""
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
    # An answer, authoritative, with the query's wish for recursion, which is granted in name only.
    flags = 0x8480 | flags & 0x0100 | (0 if name in known else NOT_KNOWN)
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
