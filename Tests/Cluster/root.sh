#!/usr/bin/env bash
# Creates the root file system of an image with the packages of Containerfile: `root.sh DIR TAR [PROGRAM…]`, with the
# programs in /usr/local/bin. image.py sets the user. The file system without programs is kept in DIR/base.tar, and is
# created again if the packages change.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
dir=$(cd "$1" && pwd)
tar=$2
shift 2

fail() {
  echo "error: $*" >&2
  exit 1
}

packages=$(sed -n 's/.*apt-get install -y --no-install-recommends \([^\\]*[^\\ ]\).*/\1/p' "$here/../../Containerfile")
[ -n "$packages" ] || fail "Containerfile has no line 'apt-get install -y --no-install-recommends PACKAGE…'"

base() {
  apt-get indextargets --format 'deb $(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' 'Origin: Debian' |
    mmdebstrap --quiet --variant=minbase --include="${packages// /,}" \
      --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
      --dpkgopt='path-exclude=/usr/share/man/*' "$(. /etc/os-release && echo "$VERSION_CODENAME")" "$dir/base.tar" -
}

if [ "$(cat "$dir/base.txt" 2> /dev/null)" != "$packages" ]; then
  echo "creating a root file system of Debian's packages, which takes a minute or two"
  base > "$dir/base.log" 2>&1 || fail "creating the root file system failed: $(tail -n 1 "$dir/base.log")"
  echo "$packages" > "$dir/base.txt"
fi
cp "$dir/base.tar" "$tar"
for program; do
  tar --append --file "$tar" --owner 0 --group 0 --mode 755 -P --transform 's|.*/|usr/local/bin/|' \
    "$(realpath "$program")"
done
