#!/usr/bin/env python3
"""A payment service that fails now and then, for the example topologies/shop.yaml.

It charges a customer once for each idempotency key, however often a request is repeated. The ledger is a CSV file: a
row for each charge or refund. An amount over 1000 is declined.
"""

import argparse
import csv
import json
import os
import random
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Ledger:
    """The charges and refunds, in a file that survives a crash of the service."""

    def __init__(self, path):
        self.lock = threading.Lock()
        self.file = open(path, "a+", newline="", encoding="utf-8")
        self.file.seek(0)
        self.rows = list(csv.reader(self.file))

    def add(self, kind, order, amount, key):
        """Adds a row, unless there is a row with this key. Returns whether the row is new."""
        with self.lock:
            if any(row[3] == key for row in self.rows):
                return False
            row = [kind, order, str(amount), key]
            csv.writer(self.file).writerow(row)
            self.file.flush()
            os.fsync(self.file.fileno())
            self.rows.append(row)
            return True

    def paid(self, order):
        """Returns the sum of the charges of an order."""
        with self.lock:
            return sum(int(row[2]) for row in self.rows if row[:2] == ["charge", order])


class Gateway(BaseHTTPRequestHandler):
    def do_POST(self):
        try:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            key, order = self.headers["Idempotency-Key"], body["order"]
            amount = body["amount"] if self.path == "/charges" else None
        except (ValueError, TypeError, KeyError) as error:
            return self.reply(400, f"the request has no valid header or body: {error!r}")
        if self.path not in ("/charges", "/refunds"):
            return self.reply(404, "send a POST request to /charges or /refunds")
        kind = self.path[1:-1]
        failure = self.server.failure()
        if failure == "before":
            print(f"{kind} {order}: busy", flush=True)
            return self.reply(503, "the service is busy")
        if kind == "charge" and amount > 1000:
            print(f"{kind} {order}: declined", flush=True)
            return self.reply(402, "declined")
        is_new = self.server.ledger.add(kind, order, amount or self.server.ledger.paid(order), key)
        outcome = "done" if is_new else "was done before"
        if failure == "after":
            print(f"{kind} {order}: {outcome}, but the answer is lost", flush=True)
            return
        print(f"{kind} {order}: {outcome}", flush=True)
        self.reply(200, outcome)

    def reply(self, status, text):
        self.send_response(status)
        self.end_headers()
        self.wfile.write(text.encode() + b"\n")

    def log_message(self, *_):
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def failure(self):
        """Returns how the present request fails: before or after its work; or None."""
        with self.lock:
            return self.random.choice(["before", "after"]) if self.random.random() < self.failures else None


def main():
    parser = argparse.ArgumentParser(description="A payment service that fails now and then.")
    parser.add_argument(
        "--port", type=int, default=os.environ.get("SHOP_GATEWAY", "8090"),
        help="0 is any free port; default: the environment variable SHOP_GATEWAY, or 8090")
    parser.add_argument("--ledger", default="ledger.csv", help="the CSV file; default: ledger.csv")
    parser.add_argument("--failures", type=float, default=0.5, help="the fraction of failing requests; default: 0.5")
    parser.add_argument("--seed", type=int, help="the seed of the failures; default: another one each time")
    options = parser.parse_args()
    server = Server(("127.0.0.1", options.port), Gateway)
    server.lock, server.random, server.failures = threading.Lock(), random.Random(options.seed), options.failures
    server.ledger = Ledger(options.ledger)
    print(f"listening on http://127.0.0.1:{server.server_port}", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()
