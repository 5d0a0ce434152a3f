#!/usr/bin/env bash
# cluster.sh DIRECTORY PREFIX COMMAND…: runs Slurm on simulated hosts, which are namespaces of this machine.
#
#   up         start host 0 (PREFIXfh0, 10.77.0.10) with slurmctld and hosts 1 to 3 with slurmd, allocate hosts 1 to 3
#              to a job, and print the job's id
#   down       stop all hosts
#   lose N     cut the power of host N
#   start N    turn host N on again
#   partition N, heal N
#              disconnect host N from the network, and connect host N again
#   end N      kill only slurmd of host N, or slurmctld of host 0
#   restart N  start that daemon again
#   lossy N, clear N
#              drop 30 % of the packets from and to host N, and stop dropping packets
#   join PID   connect process PID, which has a network namespace of its own, to the hosts' network as 10.77.0.20
set -euo pipefail
directory=$1 prefix=$2 command=$3 number=${4:-}
export SLURM_CONF=$directory/slurm.conf PATH=$PATH:/usr/sbin:/sbin
switch=${prefix}sw
controllers="freezer memory cpuset cpu devices pids systemd"

# host NAME COMMAND…: starts a host with its own network, processes, mounts, host name and cgroups. The host runs until
# it is killed, even if the command ends. Writes the process id to a file.
host() {
  local name=$prefix$1 controller group
  shift
  for controller in $controllers; do
    group=/sys/fs/cgroup/$controller/$name
    mkdir -p "$group"
    if [ "$controller" = cpuset ]; then
      cat /sys/fs/cgroup/cpuset/cpuset.cpus >"$group/cpuset.cpus"
      cat /sys/fs/cgroup/cpuset/cpuset.mems >"$group/cpuset.mems"
    fi
  done
  setsid bash -c '
    for controller in $1; do echo $$ >/sys/fs/cgroup/$controller/$2/cgroup.procs; done
    shift
    exec ip netns exec "$1" unshare --fork --kill-child --pid --mount --uts --cgroup --mount-proc "$0" "$@"
  ' "$directory/init" "$controllers" "$name" "$@" >>"$directory/$name.out" 2>&1 </dev/null &
  echo $! >"$directory/$name.pid"
}

write_init() {
  cat >"$directory/init" <<'END'
#!/usr/bin/env bash
# The init process of a host: sets the host name without the prefix, mounts the host's cgroups, and runs a command.
name=$1
shift
hostname "fh${name##*fh}"
umount -l /sys/fs/cgroup
mount -t tmpfs tmpfs /sys/fs/cgroup
for controller in freezer memory cpuset cpu devices pids systemd; do
  mkdir "/sys/fs/cgroup/$controller"
  options=$controller
  if [ $controller = systemd ]; then options=none,name=systemd; fi
  mount -t cgroup -o $options cgroup "/sys/fs/cgroup/$controller"
done
"$@" &
trap 'exit 0' TERM
while :; do wait -n || sleep 0.2; done
END
  chmod +x "$directory/init"
}

configure() {
  mkdir -p "$directory/state" "$directory/spool"
  dd if=/dev/urandom of="$directory/munge.key" bs=1024 count=1 2>/dev/null
  chmod 400 "$directory/munge.key"
  printf 'CgroupPlugin=cgroup/v1\nCgroupAutomount=no\n' >"$directory/cgroup.conf"
  cat >"$SLURM_CONF" <<END
ClusterName=test
SlurmctldHost=fh0(10.77.0.10)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket=$directory/munge.socket
MailProg=/bin/true
MpiDefault=none
StateSaveLocation=$directory/state
SlurmdSpoolDir=$directory/spool/%n
SlurmctldPidFile=$directory/slurmctld.pid
SlurmdPidFile=$directory/slurmd.%n.pid
ProctrackType=proctrack/cgroup
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
SchedulerParameters=sched_interval=1,bf_interval=1,batch_sched_delay=0
SlurmdTimeout=10
SlurmctldTimeout=10
MessageTimeout=5
KillWait=2
InactiveLimit=0
ReturnToService=1
SlurmdParameters=config_overrides
TCPTimeout=2
PropagateResourceLimits=NONE
NodeName=fh1 NodeAddr=10.77.0.11 NodeHostname=fh1 CPUs=16 RealMemory=2000
NodeName=fh2 NodeAddr=10.77.0.12 NodeHostname=fh2 CPUs=16 RealMemory=2000
NodeName=fh3 NodeAddr=10.77.0.13 NodeHostname=fh3 CPUs=16 RealMemory=2000
PartitionName=all Nodes=fh1,fh2,fh3 Default=YES MaxTime=INFINITE State=UP OverSubscribe=YES
END
}

network() {
  ip netns add "$switch"
  ip -n "$switch" link add bridge type bridge
  ip -n "$switch" link set bridge up
  for index in 0 1 2 3; do
    local name=${prefix}fh$index
    ip netns add "$name"
    ip link add eth0 netns "$name" type veth peer name "port$index" netns "$switch"
    ip -n "$switch" link set "port$index" master bridge up
    ip -n "$name" addr add "10.77.0.$((10 + index))/24" dev eth0
    ip -n "$name" link set eth0 up
    ip -n "$name" link set lo up
  done
}

# await COMMAND…: repeats a command until it succeeds, for up to 30 s.
await() {
  for _ in $(seq 300); do
    if "$@" >/dev/null 2>&1; then return; fi
    sleep 0.1
  done
  echo "cluster.sh: error: '$*' did not succeed within 30 s" >&2
  tail -n 5 "$directory"/*.out >&2
  return 1
}

inside() { ip netns exec "${prefix}fh0" "$@"; }
idle() { [ "$(inside sinfo -h -N -t idle -o %N | wc -l)" = 3 ]; }

# Prints the process id of a host's init in this machine's namespace.
init_pid() {
  local outer
  outer=$(cat "$directory/${prefix}fh$1.pid")
  pgrep -P "$outer"
}

daemon() { if [ "$1" = 0 ]; then echo slurmctld; else echo slurmd; fi; }

# Kills a host, if its file exists. Without the file, another process may have the host's process id.
end_host() {
  local file=$directory/${prefix}fh$1.pid
  if [ ! -e "$file" ]; then return; fi
  kill -9 "$(init_pid "$1")" 2>/dev/null || true
  await bash -c "! kill -0 $(cat "$file")"
  rm "$file"
}

case $command in
  up)
    write_init
    configure
    network
    munged --force --socket="$directory/munge.socket" --key-file="$directory/munge.key" \
      --pid-file="$directory/munge.pid" --log-file="$directory/munge.log" --seed-file="$directory/munge.seed" \
      >"$directory/munge.out" 2>&1
    await test -S "$directory/munge.socket"
    host fh0 slurmctld -D -i
    for index in 1 2 3; do host fh$index slurmd -D -N fh$index; done
    await idle
    inside salloc -N3 -w fh1,fh2,fh3 --no-shell --no-kill --exclusive 2>&1 | sed -n 's/.*Granted job allocation //p'
    ;;
  down)
    for index in 0 1 2 3; do end_host $index; done
    kill "$(cat "$directory/munge.pid")" || true
    for name in "$switch" "$prefix"fh{0,1,2,3}; do ip netns del "$name"; done
    # The processes of the hosts have ended, but the kernel may not have emptied their cgroups yet.
    for controller in $controllers; do
      for index in 0 1 2 3; do
        find "/sys/fs/cgroup/$controller/${prefix}fh$index" -depth -type d -exec rmdir {} \; 2>/dev/null || true
      done
    done
    ;;
  lose) end_host "$number" ;;
  start)
    host "fh$number" slurmd -D -N "fh$number"
    # Until init exists, the host is a child of this script and would end with it.
    await init_pid "$number"
    ;;
  partition) ip -n "$switch" link set "port$number" down ;;
  heal) ip -n "$switch" link set "port$number" up ;;
  lossy)
    ip netns exec "${prefix}fh$number" nft -f - <<'END'
table inet loss {
  chain input { type filter hook input priority 0; iifname "eth0" numgen random mod 100 < 30 drop; }
  chain output { type filter hook output priority 0; oifname "eth0" numgen random mod 100 < 30 drop; }
}
END
    ;;
  clear) ip netns exec "${prefix}fh$number" nft delete table inet loss ;;
  join)
    ip link add eth0 netns "$number" type veth peer name guest netns "$switch"
    ip -n "$switch" link set guest master bridge up
    nsenter -t "$number" -n ip addr add 10.77.0.20/24 dev eth0
    nsenter -t "$number" -n ip link set eth0 up
    ;;
  end) pkill -9 --nslist pid --ns "$(init_pid "$number")" -x "$(daemon "$number")" ;;
  restart)
    options=(-N "fh$number")
    if [ "$number" = 0 ]; then options=(); fi
    setsid nsenter -t "$(init_pid "$number")" -a env SLURM_CONF="$SLURM_CONF" "$(daemon "$number")" -D "${options[@]}" \
      >>"$directory/${prefix}fh$number.out" 2>&1 </dev/null &
    await pgrep --nslist pid --ns "$(init_pid "$number")" -x "$(daemon "$number")"
    if [ "$number" = 0 ]; then await inside squeue; fi
    ;;
  *)
    echo "cluster.sh: error: unknown command '$command'" >&2
    exit 2
    ;;
esac
