# shellcheck shell=bash disable=SC2034,SC2154
# What the checks of the cluster share. They have $dir, $prefix, $here and $failures.

cluster() { "$here/cluster.sh" "$dir" "$prefix" "$@"; }
kubectl() { cluster kubectl "$@"; }

# check "SENTENCE" COMMAND…: says whether something holds, and counts what does not.
check() {
  local sentence=$1
  shift
  if "$@"; then
    echo "holds: $sentence"
  else
    echo "DOES NOT HOLD: $sentence" >&2
    failures=$((failures + 1))
  fi
}

# within SECONDS COMMAND…: calls a command until it succeeds, for that long.
within() {
  local end=$((SECONDS + $1))
  shift
  until "$@" > /dev/null 2>&1; do
    [ "$SECONDS" -lt "$end" ] || return 1
    sleep 0.2
  done
}

# stays SECONDS COMMAND…: whether a command succeeds each time, for that long.
stays() {
  local end=$((SECONDS + $1))
  shift
  while [ "$SECONDS" -lt "$end" ]; do
    "$@" > /dev/null 2>&1 || return 1
    sleep 0.5
  done
}

# get RESOURCE JSONPATH: what a field of something in $namespace has; nothing where there is no such thing.
get() { kubectl -n "$namespace" get "$1" -o "jsonpath={$2}" 2> /dev/null; }

node_is() { [ "$(get "node/$1" '.status.conditions[?(@.type=="Ready")].status')" = "$2" ]; }

# Whether a pod is ready, and is another one than that with the uid.
pod_after() {
  [ "$(get "pod/$1" .metadata.uid)" != "$2" ] &&
    kubectl -n "$namespace" wait --for=condition=Ready --timeout=1s "pod/$1"
}
