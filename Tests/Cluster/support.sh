# shellcheck shell=bash disable=SC2034,SC2154
# Functions for checks of the cluster. The caller sets $dir, $prefix, $here, $namespace and $failures.

cluster() { "$here/cluster.sh" "$dir" "$prefix" "$@"; }
kubectl() { cluster kubectl "$@"; }

# check "SENTENCE" COMMAND…: prints whether a check passes, and counts the failures.
check() {
  local sentence=$1
  shift
  if "$@"; then
    echo "passed: $sentence"
  else
    echo "FAILED: $sentence" >&2
    failures=$((failures + 1))
  fi
}

# within SECONDS COMMAND…: repeats a command until it succeeds, and fails after SECONDS.
within() {
  local end=$((SECONDS + $1))
  shift
  until "$@" > /dev/null 2>&1; do
    [ "$SECONDS" -lt "$end" ] || return 1
    sleep 0.2
  done
}

# stays SECONDS COMMAND…: repeats a command for SECONDS, and fails if the command fails.
stays() {
  local end=$((SECONDS + $1))
  shift
  while [ "$SECONDS" -lt "$end" ]; do
    "$@" > /dev/null 2>&1 || return 1
    sleep 0.5
  done
}

# get RESOURCE JSONPATH: prints a field of a resource in $namespace; fails if there is none.
get() { kubectl -n "$namespace" get "$1" -o "jsonpath={$2}" 2> /dev/null; }

node_is() { [ "$(get "node/$1" '.status.conditions[?(@.type=="Ready")].status')" = "$2" ]; }

# pod_after NAME UID: succeeds if a pod is ready that has another uid.
pod_after() {
  [ "$(get "pod/$1" .metadata.uid)" != "$2" ] &&
    kubectl -n "$namespace" wait --for=condition=Ready --timeout=1s "pod/$1"
}
