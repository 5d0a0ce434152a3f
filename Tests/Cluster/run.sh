#!/usr/bin/env bash
# Runs topologies on a Kubernetes of two hosts on this machine, for `make cluster-test`: `run.sh PROGRAMS`. The
# variables SEED and FAULTS say which faults happen to one of them, and how many.
# PROGRAMS is the folder of the programs orchestrator, nodes and TestNodes. The first call builds Kubernetes in
# .build/cluster, which takes about 15 minutes, and a root file system; later ones find both there. Needs root, control
# groups of version 1, 2 GB of memory, and 5 GB of disk. It ends with exit code 1 where something does not hold, and
# leaves nothing but .build/cluster behind.
set -euo pipefail
cd "$(dirname "$0")/../.."
here=Tests/Cluster

fail() {
  echo "error: $*" >&2
  exit 1
}

[ $# = 1 ] || fail "usage: Tests/Cluster/run.sh PROGRAMS"
programs=("$1"/{orchestrator,nodes,TestNodes})
for program in "${programs[@]}"; do
  [ -x "$program" ] || fail "there is no program '$program'; 'make cluster-test' builds it"
done
[ "$(id -u)" = 0 ] || fail "hosts are made of namespaces, which only root can do; run 'make cluster-test' as root"
mapfile -t packages < $here/debian-packages.txt
tools/setup "${packages[@]}"
mkdir -p .build/cluster
dir=$PWD/.build/cluster
# A name of this run's own: others may run at the same time.
prefix=kube$$
exec {lock}> "$dir/lock"
flock -n $lock || { echo "waiting for another run that builds in '$dir'" >&2; flock $lock; }
# What a run has left that was killed.
for left in "$dir"/kube*/; do
  left=$(basename "$left")
  [ ! -d "$dir/$left" ] || [ -d "/proc/${left#kube}" ] || $here/cluster.sh "$dir" "$left" down
done
$here/build.sh "$dir"
root=$dir/root.$$.tar
end() {
  local code=$?
  trap '' INT TERM
  [ -z "${child:-}" ] || kill "$child" 2> /dev/null || true
  rm -f "$root"
  # What was said is of use where something went wrong.
  if [ $code != 0 ] && [ -d "$dir/$prefix" ]; then
    rm -rf "$dir/logs"
    mkdir "$dir/logs"
    (cd "$dir/$prefix" && find . -maxdepth 2 -name '*.log' -exec cp --parents -t "$dir/logs" {} +)
    echo "what the cluster's processes said is in '$dir/logs'" >&2
  fi
  $here/cluster.sh "$dir" "$prefix" down
  exit $code
}
trap end EXIT
trap 'exit 130' INT TERM
$here/root.sh "$dir" "$root" "${programs[@]}"
exec {lock}>&-

echo "starting the cluster"
$here/cluster.sh "$dir" "$prefix" up
$here/cluster.sh "$dir" "$prefix" image "$root" localhost/piperuntime:test
# A signal is taken while a child is waited for, not while it runs in the foreground.
waited() {
  "$@" &
  child=$!
  wait "$child"
}
failures=0
echo "a Kubernetes:"
waited $here/plain.sh "$dir" "$prefix" || failures=1
export PYTHONDONTWRITEBYTECODE=1
waited python3 $here/topologies.py "$dir" "$prefix" "${programs[0]}" \
  "${SEED:-$((RANDOM * 32768 + RANDOM))}" "${FAULTS:-18}" || failures=1
exit $failures
