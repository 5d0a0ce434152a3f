#!/usr/bin/env bash
# Makes the root file system of an image as Containerfile says: `root.sh DIR TAR [PROGRAM…]`, with the programs in
# /usr/local/bin. Of its lines, that with the packages is read, and its user is image.py's. What is without programs is
# kept in DIR/base.tar, and made anew where the packages are others.
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
[ -n "$packages" ] || fail "no line of Containerfile installs packages by 'apt-get install -y --no-install-recommends'"

base() {
  apt-get indextargets --format 'deb $(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' 'Origin: Debian' |
    mmdebstrap --quiet --variant=minbase --include="${packages// /,}" \
      --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
      --dpkgopt='path-exclude=/usr/share/man/*' "$(. /etc/os-release && echo "$VERSION_CODENAME")" "$dir/base.tar" -
}

if [ "$(cat "$dir/base.txt" 2> /dev/null)" != "$packages" ]; then
  echo "making a root file system of Debian's packages, which takes a minute or two"
  base > "$dir/base.log" 2>&1 || fail "no root file system was made: $(tail -n 1 "$dir/base.log")"
  echo "$packages" > "$dir/base.txt"
fi
cp "$dir/base.tar" "$tar"
for program; do
  tar --append --file "$tar" --owner 0 --group 0 --mode 755 -P --transform 's|.*/|usr/local/bin/|' \
    "$(realpath "$program")"
done
