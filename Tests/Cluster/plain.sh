#!/usr/bin/env bash
# Checks the guarantees of Kubernetes that deployments rely on, in a cluster of cluster.sh: `plain.sh DIR PREFIX`.
# Requires an image localhost/piperuntime:test with bash and perl. Removes everything that it creates. The exit code is
# 1 if a check fails.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
dir=$(cd "$1" && pwd)
prefix=$2
failures=0
namespace=plain
. "$here/support.sh"

shared=$dir/$prefix/shared
pod=counter-0

clean_up() { kubectl delete namespace plain --timeout=60s > /dev/null 2>&1 || true; }
trap clean_up EXIT

lines() { wc -l < "$shared/counter"; }
grows() { [ "$(lines)" -gt "$1" ]; }

# Succeeds if each run of the counter ended before the next run began, and continued its count. After a power loss up to
# five counts may be repeated or missing, since the volume and the shared file are not synchronized.
runs_are_consecutive() {
  awk '
    $2 != run && seen[$2]++ { print "run " $2 " continues after another run began, at " $4; bad = 1 }
    $2 != run && NR > 1 && ($3 < count - 5 || $3 > count + 5) { print "count " $3 " follows count " count; bad = 1 }
    { run = $2; count = $3 }
    END { exit bad }' "$shared/counter" >&2
}

runs() { cut -d ' ' -f 2 "$shared/counter" | uniq | wc -l; }
ask() { kubectl -n plain exec client -- timeout 2 bash -c 'cat < /dev/tcp/counter.plain.svc/7000'; }
answers() { [ "$(ask)" = counter ]; }
being_deleted() { [ -n "$(get "pod/$pod" .metadata.deletionTimestamp)" ]; }
is_still() { [ "$(get "pod/$pod" .metadata.uid)" = "$1" ]; }

mkdir -p "$shared"
chmod 777 "$shared"
rm -f "$shared/counter"
kubectl create namespace plain > /dev/null
within 20 kubectl -n plain get serviceaccount default
sed "s|@SHARED@|$shared|" "$here/counter.yaml" | kubectl apply -f - > /dev/null
check "a StatefulSet's pod starts on the preferred host, with its own volume" within 60 pod_after $pod none
within 60 pod_after client none || true
check "a pod on another host reaches the pod by the name of its headless Service" within 30 answers

kubectl apply -f "$here/policy.yaml" > /dev/null
check "a NetworkPolicy blocks other pods" within 20 eval '! answers'
kubectl -n plain label pod client may=ask > /dev/null
check "a NetworkPolicy admits the pods that it selects" within 20 answers
kubectl delete -f "$here/policy.yaml" > /dev/null

uid=$(get "pod/$pod" .metadata.uid)
kubectl -n plain delete "pod/$pod" --wait=false > /dev/null
check "a deleted pod is replaced by a pod with the same name" within 60 pod_after $pod "$uid"
check "the new pod has the same volume" within 10 runs_are_consecutive

uid=$(get "pod/$pod" .metadata.uid)
cluster cut 2
check "a disconnected host is no longer ready" within 60 node_is n2 Unknown
check "the pod of a disconnected host is marked for deletion" within 30 being_deleted
before=$(lines)
check "the pod of a disconnected host keeps running" within 10 grows "$before"
check "no other pod starts in its place for 30 s" stays 30 is_still "$uid"
cluster heal 2
check "the connected host is ready again" within 60 node_is n2 True
check "the pod of the connected host ends, and a new pod starts" within 120 pod_after $pod "$uid"
check "the new pod has the same volume, and both pods never run at the same time" within 10 runs_are_consecutive

uid=$(get "pod/$pod" .metadata.uid)
before=$(runs)
cluster cut 2
within 30 grows $(($(lines) + 25)) || true
cluster heal 2
check "a pod keeps running after a disconnection of 5 s" within 30 grows $(($(lines) + 100))
check "the pod's process is the same" [ "$(runs)" = "$before" ]

uid=$(get "pod/$pod" .metadata.uid)
cluster lose 2
before=$(lines)
check "a host without power is no longer ready" within 60 node_is n2 Unknown
check "no other pod starts in place of the lost pod for 30 s" stays 30 is_still "$uid"
check "no process of the lost pod runs" [ "$(lines)" = "$before" ]
cluster start 2
check "the host with power is ready again" within 60 node_is n2 True
# A restarted kubelet removes the containers of a pod that is marked for deletion only once a minute.
check "a new pod starts on the host with power" within 120 pod_after $pod "$uid"
check "the new pod has the same volume, and both pods never run at the same time" within 10 runs_are_consecutive
before=$(runs)
echo "the counter ran $before times"
[ "$failures" = 0 ]
