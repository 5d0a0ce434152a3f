#!/usr/bin/env bash
# Runs a Kubernetes cluster of several hosts on this machine, with the programs that build.sh has built in DIR/bin.
# Requires root.
#   cluster.sh DIR PREFIX up [HOSTS]      start a control plane and HOSTS nodes n1, n2, …; default: 2
#   cluster.sh DIR PREFIX down            stop and remove the cluster
#   cluster.sh DIR PREFIX cut N           disconnect host N from the network; host 0 is the control plane
#   cluster.sh DIR PREFIX heal N          connect host N again
#   cluster.sh DIR PREFIX lose N          cut the power of host N
#   cluster.sh DIR PREFIX start N         turn host N on again
#   cluster.sh DIR PREFIX image TAR NAME  import a root file system into all nodes as an image
#   cluster.sh DIR PREFIX kubectl ARG…    run kubectl as the administrator
# PREFIX names the network namespaces and control groups, so that several clusters can run. DIR/PREFIX contains the
# cluster's files; DIR/PREFIX/N/*.log are the logs of host N.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)

fail() {
  echo "error: $*" >&2
  exit 1
}

[ $# -ge 3 ] || { sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2; exit 2; }
dir=$(cd "$1" && pwd)
prefix=$2
verb=$3
shift 3
state=$dir/$prefix
bin=$dir/bin

address() { echo "10.77.0.$((10 + $1))"; }

hosts() { for ((n = 1; n <= $(< "$state/hosts"); n++)); do echo "$n"; done; }

kubectl() { ip netns exec "$prefix-0" "$bin/kubectl" --kubeconfig "$state/admin.yaml" "$@"; }

# wait_for SECONDS ERROR COMMAND…: repeats a command until it succeeds, and fails with ERROR after SECONDS.
wait_for() {
  local end=$((SECONDS + $1)) error=$2
  shift 2
  until "$@" > /dev/null 2>&1; do
    [ "$SECONDS" -lt "$end" ] || fail "$error; the logs are in '$state/*/*.log'"
    sleep 0.2
  done
}

# Prints the process id of a host's init. All processes of the host end with it.
init_pid() {
  local outer
  outer=$(cat "$state/$1/pid" 2> /dev/null) || return 1
  cat "/proc/$outer/task/$outer/children" 2> /dev/null | tr -d ' ' | grep .
}

inside() {
  local pid
  pid=$(init_pid "$1") || fail "host $1 of '$prefix' is off; 'cluster.sh … start $1' turns it on"
  shift
  nsenter -t "$pid" -m -n -p -- "$@"
}

network() {
  local n
  ip netns add "$prefix-sw"
  ip -n "$prefix-sw" link add bridge type bridge
  ip -n "$prefix-sw" link set bridge up
  for n in 0 $(hosts); do
    ip netns add "$prefix-$n"
    ip link add eth0 netns "$prefix-$n" type veth peer name "port$n" netns "$prefix-sw"
    ip -n "$prefix-sw" link set "port$n" master bridge up
    ip -n "$prefix-$n" link set lo up
    ip -n "$prefix-$n" addr add "$(address "$n")/24" dev eth0
    ip -n "$prefix-$n" link set eth0 up
    ip netns exec "$prefix-$n" sysctl -q net.ipv4.ip_forward=1
  done
  for n in 0 $(hosts); do routes "$n"; done
}

# Adds routes to the pods of the other hosts.
routes() {
  local n
  for n in $(hosts); do
    [ "$n" = "$1" ] || ip -n "$prefix-$1" route replace "10.88.$n.0/24" via "$(address "$n")"
  done
}

# kubeconfig NAME TOKEN: writes the client configuration of a user.
kubeconfig() {
  local name=$1 token=$2
  cat > "$state/$name.yaml" << END
apiVersion: v1
kind: Config
clusters: [{ name: c, cluster: { server: "$(< "$state/server")", certificate-authority: $state/0/pki/apiserver.crt } }]
users: [{ name: $name, user: { token: $token } }]
contexts: [{ name: c, context: { cluster: c, user: $name } }]
current-context: c
END
}

# Creates a token for the administrator and one for each kubelet. The control plane uses the administrator's token.
identities() {
  local n token
  echo "https://$(address 0):6443" > "$state/server"
  openssl genrsa -out "$state/account.key" 2048 2> /dev/null
  token=$(openssl rand -hex 16)
  echo "$token" > "$state/admin.token"
  kubeconfig admin "$token"
  echo "$token,admin,admin,\"system:masters\"" > "$state/tokens.csv"
  for n in $(hosts); do
    token=$(openssl rand -hex 16)
    kubeconfig "n$n" "$token"
    echo "$token,system:node:n$n,n$n,\"system:nodes\"" >> "$state/tokens.csv"
  done
}

start() {
  local command=("$here/node.sh" "$bin" "$state" "$1" "$(address "$1")")
  [ "$1" != 0 ] || command=("$here/control.sh" "$bin" "$state" "$(address 0)")
  ! init_pid "$1" > /dev/null || fail "host $1 of '$prefix' is already on"
  mkdir -p "$state/$1"
  setsid "$here/host.sh" "$state/$1" "$prefix-$1" "${command[@]}" > "$state/$1/host.log" 2>&1 < /dev/null &
  echo $! > "$state/$1/pid"
}

# Ends all processes of a host at once, without writing anything to disk.
lose() {
  local pid group
  if pid=$(init_pid "$1"); then
    kill -KILL "$pid"
    wait_for 20 "the processes of host $1 do not end" eval "! init_pid $1"
  fi
  for group in /sys/fs/cgroup/*/"$prefix-$1"; do
    [ ! -d "$group" ] || wait_for 20 "'$group' cannot be removed" remove_group "$group"
  done
}

remove_group() { find "$1" -depth -type d -exec rmdir {} + || [ ! -d "$1" ]; }

up() {
  [ "$(id -u)" = 0 ] || fail "only root can create the namespaces of the hosts; run cluster.sh as root"
  [ -x "$bin/kube-apiserver" ] || fail "there is no Kubernetes in '$bin'; run 'Tests/Cluster/build.sh $dir'"
  grep -q :memory: /proc/self/cgroup ||
    fail "this machine has only control groups of version 2, but this Kubernetes 1.20 requires version 1; boot the" \
      "kernel with systemd.unified_cgroup_hierarchy=0"
  [ ! -e "$state" ] || fail "'$state' already exists; 'cluster.sh $dir $prefix down' removes it"
  mkdir -p "$state/images"
  chmod 700 "$state"
  echo "${1:-2}" > "$state/hosts"
  network
  identities
  mkdir -p "$state/pause"
  tar -C "$bin" -cf "$state/pause/root.tar" pause
  python3 "$here/image.py" "$state/pause/root.tar" localhost/pause:1 "$state/images/pause.tar" /pause
  start 0
  wait_for 60 "the API server does not answer" kubectl get --raw /readyz
  local n
  for n in $(hosts); do start "$n"; done
  for n in $(hosts); do
    wait_for 60 "node n$n has not registered" kubectl get node "n$n"
    wait_for 60 "node n$n is not ready" kubectl wait --for=condition=Ready --timeout=1s node "n$n"
  done
  wait_for 20 "there is no default service account" kubectl get serviceaccount default
}

down() {
  local n name
  [ ! -e "$state/hosts" ] || for n in $(hosts) 0; do lose "$n"; done
  for name in /run/netns/"$prefix"-*; do
    [ ! -e "$name" ] || ip netns delete "${name##*/}"
  done
  rm -rf "$state"
}

image() {
  local archive n
  [ -r "$1" ] || fail "there is no file '$1'"
  archive=$state/images/$(tr -c 'a-zA-Z0-9.\n' - <<< "$2").tar
  python3 "$here/image.py" "$1" "$2" "$archive"
  for n in $(hosts); do
    rm -f "$state/$n/imported/${archive##*/}"
    init_pid "$n" > /dev/null || continue
    inside "$n" ctr -n k8s.io images import "$archive" > "$state/$n/import.log" 2>&1 ||
      fail "importing the image failed on host $n: $(tail -n 1 "$state/$n/import.log")"
    touch "$state/$n/imported/${archive##*/}"
  done
}

[ "$verb" = up ] || [ "$verb" = down ] || [ -e "$state/hosts" ] ||
  fail "there is no cluster '$prefix' in '$dir'; 'cluster.sh $dir $prefix up' starts one"
case $verb in
  up | down | image | kubectl | start | lose | inside) "$verb" "$@" ;;
  cut) ip -n "$prefix-sw" link set "port$1" down ;;
  heal) ip -n "$prefix-sw" link set "port$1" up ;;
  *) fail "unknown command '$verb'; 'cluster.sh' without arguments lists the commands" ;;
esac
