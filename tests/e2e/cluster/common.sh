# shellcheck shell=bash disable=SC2034
# Sourced by the other scripts of this folder: paths of the cluster, and steps with logs and times.
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
repository=$(cd "$here/../../.." && pwd)
home=${CLUSTER_HOME:-${XDG_CACHE_HOME:-$HOME/.cache}/qfleet-cluster}
state=$home/state # what one life of the cluster leaves: gone after down.sh; the rest of $home is kept
export KUBECONFIG=$home/kubeconfig
[[ $PATH == "$home/bin:"* ]] || export PATH=$home/bin:$PATH

# The cluster runs in separate network, mount and process namespaces. Its ports can't collide with
# others, and when its first process ends, the kernel removes every process, mount, interface and rule
# in them. One virtual cable leads to this machine:
cable=qfleet0
gateway=100.64.96.1 # this machine's end; shared address space (RFC 6598), which home networks do not use
node_ip=100.64.96.2 # the node's end

# The node that `enter`, `daemon` and node.sh are about; second_node.sh has other values.
node=node
node_state=$state
node_pid=$home/first.pid
subnet=10.244.0.0/24 # of its pods
cgroup=qfleet
all_pods=10.244.0.0/16

fail() {
  echo "cluster: $*" >&2
  exit 1
}

# Prints the pid of the first process of a node's namespaces; false where there is none.
first_process() {
  local pid
  pid=$(cat "$node_pid" 2>/dev/null) && [[ $(readlink "/proc/$pid/exe") == "$home/bin/pause"* ]] && echo "$pid"
}

enter() { # enter COMMAND...: run it in the cluster's namespaces
  nsenter --target "$(first_process)" --net --mount --pid -- "$@"
}

daemon() { # daemon NAME COMMAND...: start it there, to outlive this shell
  setsid nsenter --target "$(first_process)" --net --mount --pid -- "${@:2}" >"$node_state/logs/$1.log" 2>&1 </dev/null 9>&- &
}

wait_for() { # wait_for SECONDS COMMAND...: until it succeeds
  local end=$((SECONDS + $1))
  until "${@:2}" >/dev/null 2>&1; do
    ((SECONDS < end)) || { echo "gave up after $1 s: ${*:2}" && return 1; }
    sleep 0.2
  done
}

# step NAME COMMAND...: run it, its words into a log; print what it took, or how it ended. Not for use
# before && or || or in a condition: bash then ignores `set -e`, in the command as well.
step() {
  local log=$home/logs/${1// /-}.log began=${EPOCHREALTIME/./} status
  set +e
  (set -e; "${@:2}") >"$log" 2>&1 </dev/null
  status=$?
  set -e
  if ((status)); then
    tail -n 40 "$log" >&2
    fail "$1 failed: see $log and $state/logs"
  fi
  printf '%-24s %6.1f s\n' "$1" "$(((${EPOCHREALTIME/./} - began) / 1000))e-3"
}

inputs_of() { # inputs_of PATH...: a digest of what these files of this folder say
  (cd "$here" && find "$@" -type f -print0 | sort -z | xargs -0 sha256sum | sha256sum | cut -d' ' -f1)
}
