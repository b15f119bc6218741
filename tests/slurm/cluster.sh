#!/bin/bash
# A Slurm of two nodes, each in a network namespace of its own: cluster.sh FOLDER PACKAGES
#
# Run it by `unshare --net --mount --uts --pid --fork --kill-child --mount-proc`: its end is the end of all
# daemons, namespaces and interfaces. It writes FOLDER/ready when both nodes are idle.
set -euo pipefail

folder=$1
root=$2/root
nodes=(node1 node2)
export LD_LIBRARY_PATH=$root/usr/lib/x86_64-linux-gnu:$root/usr/lib/x86_64-linux-gnu/slurm-wlm
export SLURM_CONF=$folder/slurm.conf PATH=$root/usr/bin:$root/usr/sbin:$PATH

mkdir -p "$folder/state" "$folder/munge"
chmod 700 "$folder/munge"
hostname login
{
    echo "127.0.0.1 localhost"
    echo "10.77.0.1 login"
    for index in "${!nodes[@]}"; do echo "10.77.0.1$index ${nodes[index]}"; done
} >"$folder/hosts"
mount --make-rprivate /
mount --bind "$folder/hosts" /etc/hosts

ip link set lo up
ip link add bridge0 type bridge
ip addr add 10.77.0.1/24 dev bridge0
ip link set bridge0 up

# SlurmUser is the user of this namespace. cred_expire delays requeued jobs, by 120 s if it is not set.
cat >"$SLURM_CONF" <<END
ClusterName=test
SlurmctldHost=login
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket=$folder/munge/socket,cred_expire=5
PluginDir=$root/usr/lib/x86_64-linux-gnu/slurm-wlm
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool-%n
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd-%n.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdLogFile=$folder/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
SchedulerType=sched/builtin
SchedulerParameters=sched_interval=1
SlurmdParameters=config_overrides
ReturnToService=2
SlurmdTimeout=10
KillWait=15
JobRequeue=1
NodeName=node[1-2] CPUs=2 RealMemory=8192 State=UNKNOWN
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP GraceTime=30
PartitionName=urgent Nodes=ALL PriorityTier=10 MaxTime=INFINITE State=UP
END

dd if=/dev/urandom of="$folder/munge/key" bs=128 count=1 status=none
chmod 600 "$folder/munge/key"
munged --foreground --force --key-file="$folder/munge/key" --socket="$folder/munge/socket" \
    --pid-file="$folder/munge/pid" --log-file="$folder/munge/log" --seed-file="$folder/munge/seed" &
until [[ -S $folder/munge/socket ]]; do sleep 0.05; done
slurmctld-wlm -D -f "$SLURM_CONF" >"$folder/slurmctld.out" 2>&1 &

# A node: sets up its interface, and runs slurmd again after each end of it, unless FOLDER/NODE.stopped exists.
run_node() { # run_node NODE ADDRESS ROOT FOLDER
    until ip link show "$1" &>/dev/null; do sleep 0.05; done
    hostname "$1"
    ip link set lo up
    ip addr add "$2/24" dev "$1"
    ip link set "$1" up
    while :; do
        slurmd-wlm -D -N "$1" -f "$SLURM_CONF" -d "$3/usr/sbin/slurmstepd-wlm" || true
        while [[ -e $4/$1.stopped ]]; do sleep 0.1; done
    done
}
export -f run_node

for index in "${!nodes[@]}"; do
    node=${nodes[index]}
    mkdir -p "$folder/spool-$node"
    unshare --net --uts --mount bash -euc 'run_node "$@"' \
        node "$node" "10.77.0.1$index" "$root" "$folder" >"$folder/slurmd-$node.out" 2>&1 &
    pid=$!
    echo "$pid" >"$folder/$node.pid"
    until [[ $(readlink "/proc/$pid/ns/net") != "$(readlink /proc/$$/ns/net)" ]]; do sleep 0.05; done
    ip link add "$node" type veth peer name "veth-$node"
    ip link set "veth-$node" master bridge0 up
    ip link set "$node" netns "$pid"
done

until [[ $(sinfo --noheader --Node --partition=main --states=idle 2>/dev/null | wc -l) == "${#nodes[@]}" ]]; do sleep 0.1; done
touch "$folder/ready"
wait
