#!/bin/bash
# Delete the cluster with all its processes, mounts, interfaces and rules. Programs and docker's layers
# are kept for the next one:  down.sh  (make cluster-down)
set -euo pipefail
source "${BASH_SOURCE[0]%/*}/node.sh"

gone() { ! [[ -e /proc/$1/stat && $(cut -d' ' -f3 "/proc/$1/stat") != Z ]]; }

if first=$(first_process); then
  if [[ -e $state/docker.pid ]]; then # stopped first, so that its store stays intact
    enter pkill -F "$state/docker.pid" || true
    wait_for 15 test ! -e "$state/docker.pid"
    rm -f /run/docker.sock
  fi
  kill -KILL "$first"
  wait_for 15 gone "$first"
fi
wait_for 15 bash -c "! ip link show $cable" # the kernel clears a network namespace a moment later
while iptables_rules --delete 2>/dev/null; do :; done
[[ ! -e $home/sysctl ]] || sysctl -qp "$home/sysctl" >/dev/null
find /sys/fs/cgroup -depth -type d -path '*/qfleet*' -exec rmdir {} + 2>/dev/null || true
rmdir "${private[@]}" 2>/dev/null || true
rm -rf "$state" "$home"/{first.pid,sysctl,kubeconfig}
