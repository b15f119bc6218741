#!/bin/bash
# Add a second node to the running cluster, for tests of a lost machine:
#
#   second_node.sh up IMAGE...       start it, with these images
#   second_node.sh lose              end it as a power failure does: its Node object stays
#   second_node.sh down              remove it with its Node object
#
# It is a container runtime, a kubelet, a proxy and a policy agent in namespaces inside of the
# cluster's, so down.sh removes it as well. Its traffic leaves through the first node.
set -euo pipefail
source "${BASH_SOURCE[0]%/*}/node.sh"

first=$(first_process) || fail "no cluster runs here: make cluster"
node1_end=100.64.96.5

on_first_node() { nsenter --target "$first" --net --mount --pid -- "$@"; }

node=node2
node_state=$state/node2
node_pid=$node_state/first.pid
node_ip=100.64.96.6
subnet=10.244.1.0/24
cgroup=qfleet/node2

# Prints the processes that hold the second node's namespaces open, as this machine numbers them.
pauses() {
  local pid
  for pid in $(pgrep --exact pause); do
    [[ $(readlink "/proc/$pid/exe") != "$home/bin/pause"* || $pid == "$first" ]] || echo "$pid"
  done
}

up() {
  ! first_process >/dev/null || fail "the second node runs already"
  rm -rf "$node_state"
  mkdir -p "$node_state"/{logs,images,conf,pods}
  setsid nsenter --target "$first" --net --mount --pid -- unshare --net --mount --propagation slave --pid --fork \
    --kill-child --mount-proc "$home/bin/pause" </dev/null >"$node_state/logs/pause.log" 2>&1 &
  wait_for 5 test_pause
  pauses >"$node_pid"

  # The veth pair is made where its first end stays. Process numbers of the cluster's own namespace
  # differ, so the other end is moved from there by a number that is valid there.
  on_first_node ip link add node2 type veth peer name eth0-node2
  on_first_node ip link set eth0-node2 netns "$(inner_pid "$(first_process)")" name eth0
  on_first_node ip address add $node1_end/30 dev node2
  on_first_node ip link set node2 up
  on_first_node ip route add "$subnet" via "$node_ip"
  on_first_node iptables --wait --table nat --append POSTROUTING --source "$node_ip" --out-interface eth0 --jump MASQUERADE
  enter ip link set lo up
  enter ip address add "$node_ip/30" dev eth0
  enter ip link set eth0 up
  enter ip route add default via $node1_end
  enter sysctl -qw net.ipv4.ip_forward=1
  hide_folders
  make_cgroup
  start_kubelet
  load_images "$@"
}

test_pause() { [[ -n $(pauses) ]]; }

# inner_pid PID: the number of a process in the cluster's own process namespace.
inner_pid() { awk '/^NSpid:/ {print $(NF - 1)}' "/proc/$1/status"; }

lose() {
  local pid
  pid=$(first_process) || return 0
  kill -KILL "$pid"
  wait_for 15 gone "$pid"
}

gone() { ! [[ -e /proc/$1/stat && $(cut -d' ' -f3 "/proc/$1/stat") != Z ]]; }

down() {
  lose
  kubectl delete node "$node" --ignore-not-found --wait=false
  on_first_node ip link delete node2 2>/dev/null || true
  on_first_node ip route delete "$subnet" 2>/dev/null || true
  on_first_node iptables --wait --table nat --delete POSTROUTING --source "$node_ip" --out-interface eth0 --jump MASQUERADE 2>/dev/null || true
  find /sys/fs/cgroup -depth -type d -path '*/qfleet/node2*' -exec rmdir {} + 2>/dev/null || true
  rm -rf "$node_state"
}

case ${1-} in
up | lose | down) "$@" ;;
*) fail "second_node.sh takes up, lose or down" ;;
esac
