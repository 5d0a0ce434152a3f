"""A minimal client of the Kubernetes API, for the tests' resolver, provisioner and network policies."""

import json
import ssl
import time
import urllib.error
import urllib.request


class Api:
    """The API server of a cluster. The cluster's directory contains its address, certificate and admin token."""

    def __init__(self, state):
        with open(f"{state}/server") as file:
            self.server = file.read().strip()
        with open(f"{state}/admin.token") as file:
            self.token = file.read().strip()
        self.context = ssl.create_default_context(cafile=f"{state}/0/pki/apiserver.crt")

    def open(self, path, body=None, timeout=60):
        request = urllib.request.Request(self.server + path, data=body and json.dumps(body).encode())
        request.add_header("Authorization", f"Bearer {self.token}")
        request.add_header("Content-Type", "application/json")
        return urllib.request.urlopen(request, context=self.context, timeout=timeout)

    def create(self, path, body):
        """Creates an object unless an object with this name exists."""
        try:
            self.open(path, body).close()
        except urllib.error.HTTPError as error:
            if error.code != 409:
                raise

    def watch(self, path):
        """Yields all objects of a kind by (namespace, name), now and again after each change."""
        while True:
            try:
                yield from self.changes(path)
            except (OSError, ValueError) as error:
                print(f"{path}: {error}", flush=True)
                time.sleep(0.5)

    def changes(self, path):
        with self.open(path) as answer:
            listed = json.load(answer)
        objects = {key(item): item for item in listed["items"]}
        yield objects
        version = listed["metadata"]["resourceVersion"]
        with self.open(f"{path}?watch=1&timeoutSeconds=30&resourceVersion={version}") as lines:
            for line in lines:
                event = json.loads(line)
                if event["type"] == "ERROR":
                    return
                if event["type"] == "DELETED":
                    objects.pop(key(event["object"]), None)
                else:
                    objects[key(event["object"])] = event["object"]
                yield objects


def key(item):
    return item["metadata"].get("namespace", ""), item["metadata"]["name"]
