#!/usr/bin/env bash
# Runs the control plane on a host of its own: `control.sh BIN STATE ADDRESS`. Clients authenticate with the tokens of
# STATE/tokens.csv. A host without heartbeats for 12 s is marked as unknown, and its pods are deleted 5 s later; the
# defaults are minutes.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
bin=$1
state=$2
address=$3
cd "$state/0"

etcd --data-dir etcd --listen-client-urls http://127.0.0.1:2379 --advertise-client-urls http://127.0.0.1:2379 \
  --listen-peer-urls http://127.0.0.1:2380 --initial-advertise-peer-urls http://127.0.0.1:2380 \
  --initial-cluster default=http://127.0.0.1:2380 > etcd.log 2>&1 &
"$bin/kube-apiserver" --etcd-servers=http://127.0.0.1:2379 --advertise-address="$address" --cert-dir=pki \
  --token-auth-file="$state/tokens.csv" --authorization-mode=Node,RBAC --enable-admission-plugins=NodeRestriction \
  --kubelet-preferred-address-types=InternalIP --service-cluster-ip-range=10.96.0.0/16 \
  --service-account-issuer=https://kubernetes.default.svc \
  --service-account-key-file="$state/account.key" --service-account-signing-key-file="$state/account.key" \
  --default-not-ready-toleration-seconds=5 --default-unreachable-toleration-seconds=5 \
  > apiserver.log 2>&1 &
until "$bin/kubectl" --kubeconfig "$state/admin.yaml" get --raw /readyz > /dev/null 2>&1; do sleep 0.2; done
"$bin/kube-controller-manager" --kubeconfig="$state/admin.yaml" --leader-elect=false --root-ca-file=pki/apiserver.crt \
  --service-account-private-key-file="$state/account.key" --node-monitor-period=2s --node-monitor-grace-period=12s \
  --flex-volume-plugin-dir="$PWD/plugins" > controllers.log 2>&1 &
"$bin/kube-scheduler" --kubeconfig="$state/admin.yaml" --leader-elect=false > scheduler.log 2>&1 &
export PYTHONDONTWRITEBYTECODE=1
python3 "$here/resolver.py" "$state" "$address" > resolver.log 2>&1 &
python3 "$here/provisioner.py" "$state" > provisioner.log 2>&1 &
wait -n || true
echo "a process of the control plane has ended" >&2
wait
