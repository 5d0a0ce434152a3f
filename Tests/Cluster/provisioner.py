"""Provisions a volume for each pending claim: `provisioner.py STATE`.

A volume is a directory of the host that the scheduler chose for the claim's pod. It outlives the claim.
"""

import os
import sys

from api import Api

PROVISIONER = "tests.piperuntime/folder"
CLASS = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": "folder", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
    "provisioner": PROVISIONER,
    "volumeBindingMode": "WaitForFirstConsumer",
    "reclaimPolicy": "Retain",
}


def volume(claim, node):
    metadata, spec = claim["metadata"], claim["spec"]
    name = f"pvc-{metadata['uid']}"
    host = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "accessModes": spec["accessModes"],
            "capacity": {"storage": spec["resources"]["requests"]["storage"]},
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": metadata["namespace"],
                "name": metadata["name"],
                "uid": metadata["uid"],
            },
            "local": {"path": f"/var/lib/volumes/{name}"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [host]}]}},
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": spec["storageClassName"],
        },
    }


def main():
    state = sys.argv[1]
    api = Api(state)
    api.create("/apis/storage.k8s.io/v1/storageclasses", CLASS)
    for claims in api.watch("/api/v1/persistentvolumeclaims"):
        for claim in claims.values():
            notes = claim["metadata"].get("annotations") or {}
            node = notes.get("volume.kubernetes.io/selected-node")
            if (
                claim["status"].get("phase") == "Pending"
                and notes.get("volume.beta.kubernetes.io/storage-provisioner") == PROVISIONER
                and node
            ):
                made = volume(claim, node)
                # The directory of node n1's host is STATE/1.
                os.makedirs(f"{state}/{node[1:]}/lib/volumes/{made['metadata']['name']}", exist_ok=True)
                api.create("/api/v1/persistentvolumes", made)


main()
