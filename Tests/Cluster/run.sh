#!/usr/bin/env bash
# Runs topologies on a Kubernetes cluster of two hosts on this machine, for `make cluster-test`: `run.sh PROGRAMS`.
# PROGRAMS is the directory of the programs orchestrator, nodes and TestNodes. The variables SEED and FAULTS are the
# seed and the number of the random faults. The first run builds Kubernetes in .build/cluster, which takes about 15
# minutes, and a root file system; later runs use them again. Requires root, control groups of version 1, 2 GB of
# memory, and 5 GB of disk space. The exit code is 1 if a check fails. Leaves only .build/cluster behind.
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
[ "$(id -u)" = 0 ] || fail "only root can create the namespaces of the hosts; run 'make cluster-test' as root"
mapfile -t packages < $here/debian-packages.txt
tools/setup "${packages[@]}"
mkdir -p .build/cluster
dir=$PWD/.build/cluster
# A unique name, since other runs may run at the same time.
prefix=kube$$
exec {lock}> "$dir/lock"
flock -n $lock || { echo "waiting for another run that builds in '$dir'" >&2; flock $lock; }
# Remove the clusters of runs that were killed.
for left in "$dir"/kube*/; do
  left=$(basename "$left")
  [ ! -d "$dir/$left" ] || [ -d "/proc/${left#kube}" ] || $here/cluster.sh "$dir" "$left" down
done
$here/build.sh "$dir"
root=$dir/root.$$.tar
clean_up() {
  local code=$?
  trap '' INT TERM
  [ -z "${child:-}" ] || kill "$child" 2> /dev/null || true
  rm -f "$root"
  # Keep the logs of a failed run.
  if [ $code != 0 ] && [ -d "$dir/$prefix" ]; then
    rm -rf "$dir/logs"
    mkdir "$dir/logs"
    (cd "$dir/$prefix" && find . -maxdepth 2 -name '*.log' -exec cp --parents -t "$dir/logs" {} +)
    echo "the logs of the cluster are in '$dir/logs'" >&2
  fi
  $here/cluster.sh "$dir" "$prefix" down
  exit $code
}
trap clean_up EXIT
trap 'exit 130' INT TERM
$here/root.sh "$dir" "$root" "${programs[@]}"
exec {lock}>&-

echo "starting the cluster"
$here/cluster.sh "$dir" "$prefix" up
$here/cluster.sh "$dir" "$prefix" image "$root" localhost/piperuntime:test
# run_child COMMAND…: bash handles signals while it waits for a background child, but not during a foreground command.
run_child() {
  "$@" &
  child=$!
  wait "$child"
}
failures=0
echo "Kubernetes:"
run_child $here/plain.sh "$dir" "$prefix" || failures=1
export PYTHONDONTWRITEBYTECODE=1
run_child python3 $here/topologies.py "$dir" "$prefix" "${programs[0]}" \
  "${SEED:-$((RANDOM * 32768 + RANDOM))}" "${FAULTS:-18}" || failures=1
exit $failures
