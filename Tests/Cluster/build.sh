#!/usr/bin/env bash
# Builds Kubernetes 1.20 in a directory from Debian's source package: `Tests/Cluster/build.sh DIR`. Writes the programs
# DIR/bin/{kube-apiserver,kube-controller-manager,kube-scheduler,kubelet,kubectl,pause}, and does nothing if all of them
# exist. Requires the packages of Tests/Cluster/debian-packages.txt, 5 GB of disk space during the build, 600 MB
# afterwards, and about 15 minutes on two processors. The build's output is in DIR/build.log.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)

programs=(kube-apiserver kube-controller-manager kube-scheduler kubelet kubectl)

fail() {
  echo "error: $*" >&2
  exit 1
}

[ $# = 1 ] || fail "usage: Tests/Cluster/build.sh DIR"
mkdir -p "$1"
dir=$(cd "$1" && pwd)
log=$dir/build.log

built() {
  local program
  for program in "${programs[@]}" pause; do
    [ -x "$dir/bin/$program" ] || return 1
  done
}

# Downloads Debian's source package from this machine's package servers. Only these calls of apt use the list of sources
# in DIR; the machine's own lists are unchanged.
fetch() {
  local lists=$dir/apt
  mkdir -p "$lists/lists/partial"
  apt-get indextargets --format 'deb-src $(REPO_URI) $(RELEASE) $(COMPONENT)' \
    'Created-By: Packages' 'Origin: Debian' > "$lists/sources.list"
  [ -s "$lists/sources.list" ] ||
    fail "apt has no list of Debian's packages; run 'apt-get update' as root, and try again"
  local options=(-q -o "Dir::Etc::sourcelist=$lists/sources.list" -o Dir::Etc::sourceparts=/dev/null
    -o "Dir::State::lists=$lists/lists" -o Dir::Cache::srcpkgcache= -o Dir::Cache::pkgcache=
    -o APT::Sandbox::User=root)
  apt-get "${options[@]}" update
  rm -rf "$dir/source"
  mkdir "$dir/source"
  (cd "$dir/source" && apt-get "${options[@]}" source kubernetes)
  touch "$dir/fetched"
}

# Builds with Kubernetes' own makefile, which generates the files that the source package lacks. The package contains
# all Go modules.
compile() {
  local source
  source=$(find "$dir/source" -mindepth 1 -maxdepth 1 -type d -name 'kubernetes-*')
  [ -d "$source" ] || fail "Debian's source package has no folder 'kubernetes-…' in '$dir/source'"
  (
    cd "$source"
    export GOPATH=$source/.go GOTMPDIR=$dir/temporary GOPROXY=off GO111MODULE=off CGO_ENABLED=0
    export HOME=$dir PATH=/usr/lib/go-1.19/bin:$PATH
    unset GOFLAGS
    mkdir -p "$GOTMPDIR"
    mkdir -p .go/src/k8s.io
    ln -sfn ../../.. .go/src/k8s.io/kubernetes
    make WHAT="${programs[*]/#/cmd/}" KUBE_GIT_VERSION=v1.20.2 KUBE_GIT_MAJOR=1 KUBE_GIT_MINOR=20 \
      KUBE_GIT_COMMIT=debian KUBE_GIT_TREE_STATE=archive GOGCFLAGS=
  )
  mkdir -p "$dir/bin"
  cp "${programs[@]/#/$source/_output/bin/}" "$dir/bin/"
}

! built || exit 0
for package in $(< "$here/debian-packages.txt"); do
  [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2> /dev/null)" = installed ] ||
    fail "package '$package' is not installed; run 'tools/setup \$(cat Tests/Cluster/debian-packages.txt)', and" \
      "try again"
done
echo "building Kubernetes in '$dir', which takes about 15 minutes"
exec 3>&2
report_failure() {
  [ $? != 0 ] || return 0
  tail -n 5 "$log" >&3
  echo "error: building Kubernetes failed; the output is in '$log'" >&3
}
trap report_failure EXIT
{
  mkdir -p "$dir/bin"
  gcc -static -Os -s -o "$dir/bin/pause" "$here/pause.c"
  [ -e "$dir/fetched" ] || fetch
  compile
} > "$log" 2>&1
rm -rf "$dir/source" "$dir/temporary" "$dir/apt" "$dir/fetched"
