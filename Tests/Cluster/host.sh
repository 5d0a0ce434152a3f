#!/usr/bin/env bash
# Runs a command on a simulated host: `host.sh FOLDER NAME COMMAND…`. The host uses the existing network namespace NAME,
# and has control groups of that name, its own processes and mounts, and FOLDER/lib and FOLDER/log in place of /var/lib
# and /var/log. Its init process keeps running when the command ends; SIGKILL of init simulates a power loss.
set -euo pipefail

inside() {
  local folder=$1 name=$2 line
  shift 2
  hostname "$name"
  mount --make-rprivate /
  umount -l /sys/fs/cgroup 2> /dev/null || true
  mount -t tmpfs tmpfs /sys/fs/cgroup
  while IFS=: read -r _ controllers _; do
    [ -n "$controllers" ] || continue
    mkdir "/sys/fs/cgroup/${controllers#name=}"
    mount -t cgroup -o "${controllers/#name=/none,name=}" cgroup "/sys/fs/cgroup/${controllers#name=}"
    # Programs look for cpu,cpuacct under either name.
    for line in ${controllers//,/ }; do
      [[ $controllers != *,* ]] || ln -s "$controllers" "/sys/fs/cgroup/$line"
    done
  done < /proc/self/cgroup
  mount -t tmpfs tmpfs /run
  mount --bind "$folder/lib" /var/lib
  mount --bind "$folder/log" /var/log
  # A kubelet would set these for the whole machine, and nothing would reset them. Show it files with the values that it
  # wants.
  while read -r name line; do
    [ -e "/proc/sys/$name" ] || continue
    echo "$line" > "$folder/sysctl"
    cp "$folder/sysctl" "/run/${name//\//.}"
    mount --bind "/run/${name//\//.}" "/proc/sys/$name"
  done <<< $'vm/overcommit_memory 1\nvm/panic_on_oom 0\nkernel/panic 10\nkernel/panic_on_oops 1
kernel/keys/root_maxkeys 1000000\nkernel/keys/root_maxbytes 25000000'
  mount --make-rshared /
  "$@" &
  trap 'exit 0' TERM
  # The init process must reap orphans.
  while :; do wait -n || sleep 1; done
}

if [ "$1" = --inside ]; then
  shift
  inside "$@"
fi

folder=$1
name=$2
mkdir -p "$folder/lib" "$folder/log"
# Read the list before the loop, which changes it.
mapfile -t groups < /proc/self/cgroup
for line in "${groups[@]}"; do
  IFS=: read -r _ controllers _ <<< "$line"
  [ -n "$controllers" ] || continue
  group=/sys/fs/cgroup/${controllers#name=}
  mkdir -p "$group/$name"
  if [[ ,$controllers, = *,cpuset,* ]]; then
    cat "$group/cpuset.cpus" > "$group/$name/cpuset.cpus"
    cat "$group/cpuset.mems" > "$group/$name/cpuset.mems"
  fi
  echo $$ > "$group/$name/cgroup.procs"
done
exec ip netns exec "$name" unshare --fork --kill-child --pid --mount --uts --ipc --cgroup --mount-proc \
  "$0" --inside "$@"
