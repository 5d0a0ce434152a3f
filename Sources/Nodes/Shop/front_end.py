#!/usr/bin/env python3
"""The HTTP front end of the shop, for the example topologies/shop.yaml.

    POST   /orders        {"order": "4711", "amount": 30}    places an order
    GET    /orders/4711                                      returns an order's state
    DELETE /orders/4711                                      cancels an order

It sends events with the command 'orchestrator', which must be in PATH.
"""

import argparse
import json
import re
import subprocess
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

# The exit codes of 'orchestrator': docs/COMMANDS.md.
REFUSED, NOT_RUNNING, TIMED_OUT = 1, 3, 124
STATUS = {REFUSED: 409, NOT_RUNNING: 503, TIMED_OUT: 504}


class FrontEnd(BaseHTTPRequestHandler):
    def do_POST(self):
        try:
            body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)))
            order, amount = body["order"], body["amount"]
        except (ValueError, TypeError, KeyError):
            return self.reply(400, {"error": 'send an order, such as {"order": "4711", "amount": 30}'})
        if self.path != "/orders":
            return self.reply(404, {"error": "send an order to /orders"})
        self.send({"place": {"order": order, "amount": amount}}, 201)

    def do_DELETE(self):
        if order := self.order():
            self.send({"cancel": {"order": order}}, 200)

    def do_GET(self):
        if order := self.order():
            code, answer = self.orchestrator("instances", "orders", order)
            if code == 0:
                return self.reply(200, answer[0])
            self.reply(404 if code == 1 else STATUS.get(code, 500), answer)

    def order(self):
        """Returns the order in the path; replies with 404 if there is none."""
        match = re.fullmatch(r"/orders/(\w[\w-]*)", self.path)
        if not match:
            self.reply(404, {"error": "the path of an order is /orders/NUMBER"})
        return match and match[1]

    def send(self, event, status):
        """Sends an event to the node 'orders', and replies with the outcome."""
        code, answer = self.orchestrator("send", "orders", json.dumps(event))
        self.reply(status if code == 0 else STATUS.get(code, 400), answer)

    def orchestrator(self, verb, *arguments):
        """Runs a verb of the orchestrator. Returns its exit code and its answer."""
        command = ["orchestrator", verb, "-p", self.server.topology, "-o", "json", *arguments]
        done = subprocess.run(command, capture_output=True, text=True)
        try:
            return done.returncode, json.loads(done.stdout)
        except ValueError:
            return done.returncode, {"error": done.stderr.strip()}

    def reply(self, status, value):
        text = json.dumps(value).encode() + b"\n"
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True


def main():
    parser = argparse.ArgumentParser(description="The HTTP front end of the shop.")
    parser.add_argument("--port", type=int, default=8080, help="default: 8080; 0 is any free port")
    parser.add_argument("--topology", default="shop", help="the name of the running topology; default: shop")
    options = parser.parse_args()
    server = Server(("127.0.0.1", options.port), FrontEnd)
    server.topology = options.topology
    print(f"listening on http://127.0.0.1:{server.server_port}", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()
