"""Makes an image that a container runtime imports of a root file system: `image.py ROOT NAME ARCHIVE [COMMAND]`.

ROOT is a tar of all files, NAME what pods call the image by (`localhost/hall:1`), ARCHIVE the file that is written, as
`docker save` writes it. Its processes are user 1000, and it runs COMMAND, where a pod says nothing else.
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
