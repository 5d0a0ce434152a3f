"""Creates a container image from a root file system: `image.py ROOT NAME ARCHIVE [COMMAND]`.

ROOT is a tar of all files, NAME the image's name in pods (`localhost/hall:1`), and ARCHIVE the file to write, in the
format of `docker save`. Processes run as user 1000. COMMAND runs unless a pod names another command.
"""

import hashlib
import io
import json
import platform
import sys
import tarfile


def digest(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def main():
    root, name, archive, *command = sys.argv[1:]
    configuration = json.dumps(
        {
            "architecture": {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine()),
            "os": "linux",
            "config": {
                "Entrypoint": command,
                "Env": ["PATH=/usr/local/bin:/usr/bin:/bin"],
                "User": "1000:1000",
                "WorkingDir": "/",
            },
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest(root)}"]},
        }
    ).encode()
    file = f"{hashlib.sha256(configuration).hexdigest()}.json"
    manifest = json.dumps([{"Config": file, "RepoTags": [name], "Layers": ["layer.tar"]}]).encode()
    with tarfile.open(archive, "w") as tar:
        tar.add(root, "layer.tar")
        for path, content in ((file, configuration), ("manifest.json", manifest)):
            entry = tarfile.TarInfo(path)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))


main()
