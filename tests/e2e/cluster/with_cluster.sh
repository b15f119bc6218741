#!/bin/bash
# Start a cluster, run a command, delete the cluster, and check that it left nothing behind:
#
#   with_cluster.sh COMMAND...        with_cluster.sh make e2e
#
# MEANWHILE="make verify" runs this command while the cluster starts. Where it fails, COMMAND is not run.
#
# Exits with the command's exit code; with 1, and a list of the remains, if something is left.
set -euo pipefail
source "${BASH_SOURCE[0]%/*}/common.sh"

traces() { # all that a cluster could leave, a line each
  local table family
  pgrep --full --list-full "^([^ ]*/)?(dockerd|containerd|etcd|coredns|pause|kube[a-z-]*|runc)|$home/bin" |
    sed 's/^[0-9]* /process /' || true
  awk '{print "mount", $5, $(NF - 2)}' /proc/self/mountinfo
  ip -oneline link | awk '{print "interface", $2}'
  ip route | sed 's/^/route /'
  lsns --type net --noheadings --output NS,COMMAND | sed 's/^/network namespace /'
  for family in iptables ip6tables; do
    for table in filter nat mangle raw; do
      "$family" --wait --table $table --list-rules 2>/dev/null | sed "/^-P .* ACCEPT$/d; s/^/$family $table /" || true
    done
  done
  sysctl net.ipv4.ip_forward vm.overcommit_memory vm.panic_on_oom kernel.panic kernel.panic_on_oops
  find /sys/fs/cgroup -type d \( -name qfleet -o -name kubepods -o -name docker \)
}

(($#)) || fail "the command is missing: with_cluster.sh COMMAND..."
"$here/down.sh"
before=$(traces | sort)
status=0
"$here/up.sh" & up=$!
trap 'kill $up 2>/dev/null || true; wait $up || true; "$here/down.sh"' EXIT
bash -c "${MEANWHILE:-true}" || status=$?
wait $up || status=$?
((status)) || "$@" || status=$?
trap - EXIT
"$here/down.sh"
left=$(comm -13 <(echo "$before") <(traces | sort)) # traces that disappeared meanwhile do not matter
[[ -z $left ]] || fail "cluster-down left this behind:"$'\n'"$left"
exit $status
