#!/usr/bin/env bash
# Checks what deployments rely on of a Kubernetes that cluster.sh runs: `plain.sh DIR PREFIX`. Needs the image
# localhost/piperuntime:test, any with bash and perl. What it starts is gone afterwards. The exit code is 1 where
# something does not hold.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
dir=$(cd "$1" && pwd)
prefix=$2
failures=0
namespace=plain
. "$here/support.sh"

shared=$dir/$prefix/shared
pod=counter-0

clear_away() { kubectl delete namespace plain --timeout=60s > /dev/null 2>&1 || true; }
trap clear_away EXIT

lines() { wc -l < "$shared/counter"; }
grows() { [ "$(lines)" -gt "$1" ]; }
last() { tail -n 1 "$shared/counter"; }

# Each run of the counter has ended before the next began, and each went on where the one before was. Five numbers may
# be told twice or not at all where the power went: the volume is not synchronized with the folder.
one_after_the_other() {
  awk '
    $2 != run && seen[$2]++ { print "run " $2 " goes on after another one began, at " $4; bad = 1 }
    $2 != run && NR > 1 && ($3 < count - 5 || $3 > count + 5) { print "count " $3 " follows on " count; bad = 1 }
    { run = $2; count = $3 }
    END { exit bad }' "$shared/counter" >&2
}

runs() { cut -d ' ' -f 2 "$shared/counter" | uniq | wc -l; }
ask() { kubectl -n plain exec asker -- timeout 2 bash -c 'cat < /dev/tcp/counter.plain.svc/7000'; }
answers() { [ "$(ask)" = counter ]; }
being_deleted() { [ -n "$(get "pod/$pod" .metadata.deletionTimestamp)" ]; }
is_still() { [ "$(get "pod/$pod" .metadata.uid)" = "$1" ]; }

mkdir -p "$shared"
chmod 777 "$shared"
rm -f "$shared/counter"
kubectl create namespace plain > /dev/null
within 20 kubectl -n plain get serviceaccount default
sed "s|@SHARED@|$shared|" "$here/counter.yaml" | kubectl apply -f - > /dev/null
check "a StatefulSet's pod starts on the host that is preferred, with a volume of its own" within 60 pod_after $pod none
within 60 pod_after asker none || true
check "a pod on another host reaches it by the name of its headless Service" within 30 answers

kubectl apply -f "$here/policy.yaml" > /dev/null
check "a NetworkPolicy keeps others out" within 20 eval '! answers'
kubectl -n plain label pod asker may=ask > /dev/null
check "but those that it lets in" within 20 answers
kubectl delete -f "$here/policy.yaml" > /dev/null

uid=$(get "pod/$pod" .metadata.uid)
kubectl -n plain delete "pod/$pod" --wait=false > /dev/null
check "a deleted pod comes again with the same name" within 60 pod_after $pod "$uid"
check "and with the same volume" within 10 one_after_the_other

uid=$(get "pod/$pod" .metadata.uid)
cluster cut 2
check "a host without its network is no longer ready" within 60 node_is n2 Unknown
check "and its pod is to be deleted" within 30 being_deleted
before=$(lines)
check "the pod there goes on" within 10 grows "$before"
check "no other one is started in its place for 30 s" stays 30 is_still "$uid"
cluster heal 2
check "the host is ready again" within 60 node_is n2 True
check "its pod is ended there, and starts anew" within 120 pod_after $pod "$uid"
check "with the same volume, and never two at once" within 10 one_after_the_other

uid=$(get "pod/$pod" .metadata.uid)
before=$(runs)
cluster cut 2
within 30 grows $(($(lines) + 25)) || true
cluster heal 2
check "a pod goes on after an interruption of 5 s" within 30 grows $(($(lines) + 100))
check "being the same process" [ "$(runs)" = "$before" ]

uid=$(get "pod/$pod" .metadata.uid)
cluster lose 2
before=$(lines)
check "a host without power is no longer ready" within 60 node_is n2 Unknown
check "no other pod is started in place of its own for 30 s" stays 30 is_still "$uid"
check "nothing of it runs" [ "$(lines)" = "$before" ]
cluster start 2
check "the host is ready again" within 60 node_is n2 True
# A kubelet that was started anew forgets the containers of a pod that is to be deleted once a minute.
check "its pod starts anew" within 120 pod_after $pod "$uid"
check "with the same volume, and never two at once" within 10 one_after_the_other
before=$(runs)
echo "the counter ran $before times"
[ "$failures" = 0 ]
