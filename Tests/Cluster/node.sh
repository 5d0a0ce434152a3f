#!/usr/bin/env bash
# Runs a container runtime and a kubelet on a host of their own: `node.sh BIN STATE NUMBER ADDRESS`. The host is node
# nNUMBER of the cluster, and its pods have addresses of the network 10.88.NUMBER.0/24.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
bin=$1
state=$2
number=$3
address=$4
cd "$state/$number"

mkdir -p network
cat > network/10-pods.conflist << END
{ "cniVersion": "0.4.0", "name": "pods", "plugins": [{ "type": "bridge", "bridge": "pods0", "isGateway": true,
  "ipam": { "type": "host-local", "ranges": [[{ "subnet": "10.88.$number.0/24" }]],
    "routes": [{ "dst": "0.0.0.0/0" }] } }] }
END
cat > containerd.toml << END
version = 2
oom_score = 0
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "localhost/pause:1"
  restrict_oom_score_adj = true
  disable_apparmor = true
  disable_hugetlb_controller = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "$PWD/network"
END
containerd -c containerd.toml > containerd.log 2>&1 &
until ctr version > /dev/null 2>&1; do sleep 0.2; done
# There is no registry: import all images before a pod needs them.
mkdir -p imported
for image in "$state"/images/*.tar; do
  [ -e "imported/${image##*/}" ] || ctr -n k8s.io images import "$image" >> import.log 2>&1
  touch "imported/${image##*/}"
done
PYTHONDONTWRITEBYTECODE=1 python3 "$here/policies.py" "$state" > policies.log 2>&1 &
# Restart the kubelet as a host's init would.
while :; do
  "$bin/kubelet" --config="$here/kubelet.yaml" --kubeconfig="$state/n$number.yaml" --hostname-override="n$number" \
    --node-ip="$address" --container-runtime=remote \
    --container-runtime-endpoint=unix:///run/containerd/containerd.sock >> kubelet.log 2>&1 || true
  sleep 1
done
