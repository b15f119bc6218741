#!/bin/bash
# Start a Kubernetes of one node with the training operator, the JobSet controller and this project's
# images. Run again, it updates what has changed:  up.sh  (make cluster)
# TRAINER=1 adds Kubeflow Trainer v2 and KUEUE=1 adds Kueue, which only nightly tests use.
#
# `up.sh prepare` only builds the programs, which takes no running cluster: CI does it ahead.
set -euo pipefail
source "${BASH_SOURCE[0]%/*}/base.sh"
source "${BASH_SOURCE[0]%/*}/builds.sh"
source "${BASH_SOURCE[0]%/*}/node.sh"

packages=(ca-certificates conntrack containernetworking-plugins curl docker.io ipset iproute2
  iptables mmdebstrap openssl procps python3 socat)

install_packages() {
  dpkg --status "${packages[@]}" >/dev/null 2>&1 && return
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -qq --no-install-recommends "${packages[@]}"
}

start_docker() {
  docker info >/dev/null 2>&1 && return # use the machine's own daemon
  daemon docker dockerd --data-root "$home/docker" --cgroup-parent /qfleet --pidfile "$state/docker.pid"
  wait_for 30 docker info
}

# Layers of older builds are a part of Docker's cache: they are deleted only when space is short.
free_space() {
  local kilobytes=$((10 * 1024 * 1024))
  enough() { (($(df --output=avail -k "$home" | tail -n 1) >= kilobytes)); }
  enough || [[ ! -e $state/docker.pid ]] || docker image prune --force
  enough || fail "$home needs 10 GB for images: free space on its disk and run this again"
}

make_images() { make --no-print-directory -C "$repository" images BASE=qfleet-base:local QUICK=1; }

own_images() { # builds and loads this project's images: the container runtime runs before the cluster does
  step "base image" build_base
  step "make images" make_images
  step "load images" load_images qfleet-{storage,tensorboard,worker}:"$(cat "$repository/VERSION")"
}

controllers() {
  step "build operator" build_operator
  step "build JobSet" build_jobset
}

import_dns() { # the cluster's program, under the name of CoreDNS
  local inputs
  inputs=$(sha256sum <"$home/bin/kubernetes.inputs" | cut -d' ' -f1)
  [[ $(docker image inspect -f '{{.Config.Labels.inputs}}' localhost/coredns:1 2>/dev/null) == "$inputs" ]] ||
    tar -C "$home/bin" -c --transform 's/kubernetes/coredns/' kubernetes |
    docker import -c "LABEL inputs=$inputs" - localhost/coredns:1
}

sources() { (cd "$here/$1" && go list -m -f '{{.Dir}}' "$2"); } # sources NAME MODULE

# apply_controller NAME PROGRAM FOLDER [OPTION...]: its own program and its own manifests, but for the CPU
# that it reserves, which a small node lacks, and the time of its webhooks, which wait on a busy one; OPTIONs are of
# `docker import`
apply_controller() {
  local manifests=$state/$1.yaml image
  kubectl kustomize "$3" | sed 's/cpu: 500m/cpu: 10m/
    s/^  sideEffects: None$/&\n  timeoutSeconds: 25/' >"$manifests"
  image=$(awk '$1 == "image:" && NF == 2 {print $2}' "$manifests")
  install -D -m 755 "$home/bin/$2" "$state/$1/manager"
  install -d -m 1777 "$state/$1/tmp"
  [[ -e $state/images/$1 ]] || tar -C "$state/$1" -c . | docker import "${@:4}" - "$image"
  touch "$state/images/$1"
  load_images "$image"
  kubectl apply --server-side --force-conflicts -f "$manifests"
}

apply_operator() {
  apply_controller operator training-operator \
    "$(sources kubernetes github.com/kubeflow/training-operator)/manifests/overlays/standalone"
}

apply_jobset() { # its manifest wants a user that is not root
  apply_controller jobset jobset "$(sources kubernetes sigs.k8s.io/jobset)/config/default" -c 'USER 65532:65532'
}

apply_trainer() { # without the JobSet that its manifest downloads, and with the progress of TrainJobs
  rm -rf "$state/trainer-manifests"
  cp -r --no-preserve=mode "$(sources trainer github.com/kubeflow/trainer/v2)/manifests" "$state/trainer-manifests"
  sed -i '/third-party/d' "$state/trainer-manifests/overlays/manager/kustomization.yaml"
  sed -i 's|^\( *\)- --zap-log-level=2$|&\n\1- --feature-gates=TrainJobStatus=true|' \
    "$state/trainer-manifests/base/manager/manager_config_patch.yaml"
  apply_controller trainer trainer "$state/trainer-manifests/overlays/manager" \
    -c 'ENTRYPOINT ["/manager"]' -c 'USER 65532:65532'
}

# Its webhooks only concern namespaces with this label: a controller that does not answer stops no other job.
apply_kueue() {
  local folder=$state/kueue-manifests
  rm -rf "$folder"
  cp -r --no-preserve=mode "$(sources kueue sigs.k8s.io/kueue)/config" "$folder"
  cp "$here/kueue/kustomization.yaml" "$folder/default/"
  cp "$here/kueue/controller_manager_config.yaml" "$folder/components/manager/"
  sed -i 's/^  failurePolicy: Fail$/&\n  namespaceSelector:\n    matchLabels:\n      qfleet\/kueue: "true"/' \
    "$folder/components/webhook/manifests.yaml"
  apply_controller kueue kueue "$folder/default" -c 'USER 65532:65532'
}

ready() { # ready NAMESPACE DEPLOYMENT TIMEOUT
  kubectl -n "$1" rollout status "deployment/$2" --timeout="$3" && return
  kubectl -n "$1" get pods,events # to be read here: with_cluster.sh deletes the cluster with its logs
  kubectl -n "$1" logs --tail=10 "deployment/$2"
  return 1
}

began=$SECONDS
((EUID == 0)) || fail "containers are started by root: run it as root"
((${#home} <= 70)) || fail "$home is too long for the Unix sockets below it: set CLUSTER_HOME to a shorter path"
mkdir -p "$home"/{bin,logs}
exec 9>"$home/lock"
flock --nonblock 9 || fail "another make cluster is at work in $home"
if [[ ${1-} == prepare ]]; then
  command -v go >/dev/null || fail "go is missing: install it and run this again"
  step "build pause" build_pause
  step "build Kubernetes" build_kubernetes
  controllers
  exit
fi
if command -v apt-get >/dev/null && grep -q '^ID=debian' /etc/os-release; then
  step packages install_packages
fi
for program in ctr containerd curl docker go ip iptables mmdebstrap nsenter openssl pgrep runc unshare; do
  command -v "$program" >/dev/null || fail "$program is missing: install it and run this again"
done

inputs=$(inputs_of kubernetes trainer kueue conf policies {common,builds,node,up}.sh)
if [[ $(cat "$state/inputs" 2>/dev/null) != "$inputs" ]] || ! control_plane_answers; then
  [[ ! -e $state ]] || step "take down the old" "$here/down.sh"
fi
step "build pause" build_pause
if ! first_process >/dev/null; then
  ! ip link show "$cable" >/dev/null 2>&1 || fail "$cable exists already: another cluster of this kind runs here"
  step namespaces open_namespaces
fi
step docker start_docker
step containerd start_containerd
step "free space" free_space
docker image inspect localhost/pause:1 >/dev/null 2>&1 ||
  tar -C "$home/bin" -c pause | docker import -c 'ENTRYPOINT ["/pause"]' - localhost/pause:1 >/dev/null

# Two chains of jobs in parallel: the images that run in the cluster, and its own programs. Each job in
# the background is a process group (set -m), to be stopped whole where this script ends early.
set -m
own_images & images=$!
trap 'kill -- -$images ${operator:+-$operator} 2>/dev/null || true' EXIT
step "build Kubernetes" build_kubernetes
controllers & operator=$!
set +m
step "image of DNS" import_dns
if ! control_plane_answers; then
  step "node Ready" start_node
  echo "$inputs" >"$state/inputs"
fi
wait $operator
step "apply operator" apply_operator
step "apply JobSet" apply_jobset
wait $images
step "operator ready" ready kubeflow training-operator 120s
step "JobSet ready" ready jobset-system jobset-controller-manager 180s
if [[ -n ${TRAINER:-} ]]; then
  step "build Trainer" build_trainer
  step "apply Trainer" apply_trainer
  step "Trainer ready" ready kubeflow-system kubeflow-trainer-controller-manager 180s
fi
if [[ -n ${KUEUE:-} ]]; then
  step "build Kueue" build_kueue
  step "apply Kueue" apply_kueue
  step "Kueue ready" ready kueue-system kueue-controller-manager 180s
fi
trap - EXIT

printf '%-24s %6d s\n' "cluster" $((SECONDS - began))
PATH=${PATH#"$home/bin:"} command -v kubectl >/dev/null || echo "export PATH=$home/bin:\$PATH"
echo "export KUBECONFIG=$KUBECONFIG"
