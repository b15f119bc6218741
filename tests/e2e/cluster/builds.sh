# shellcheck shell=bash
# Sourced by up.sh: the programs of the cluster, from their Go modules.
source "${BASH_SOURCE[0]%/*}/common.sh"

# build NAME MODULE PACKAGE [LDFLAGS]: unless its module, this file and Go are what they were. These options
# halve the compiler's time: no inlining, no debug information, no garbage collection below 2 GiB.
build() {
  local inputs
  inputs="$(inputs_of "$2" builds.sh) $(go version)"
  [[ -x $home/bin/$1 && $(cat "$home/bin/$1.inputs" 2>/dev/null) == "$inputs" ]] && return
  (cd "$here/$2" && CGO_ENABLED=0 GOGC=off GOMEMLIMIT=2GiB go build -buildvcs=false -trimpath \
    -gcflags 'all=-l -dwarf=false' -ldflags "-s -w ${4:-}" -o "$home/bin/$1" "$3")
  echo "$inputs" >"$home/bin/$1.inputs"
}

build_pause() { build pause kubernetes ./pause; } # it is the namespaces' first process, and the pods'

build_kubernetes() {
  local version program
  version=$(cd "$here/kubernetes" && go list -m -f '{{with .Replace}}{{.Version}}{{end}}' k8s.io/kubernetes)
  build kubernetes kubernetes . "-X k8s.io/component-base/version.gitVersion=$version \
    -X k8s.io/client-go/pkg/version.gitVersion=$version"
  for program in etcd kube-apiserver kube-controller-manager kube-scheduler kubelet kube-proxy coredns kubectl; do
    ln -sf kubernetes "$home/bin/$program"
  done
}

build_operator() {
  build training-operator kubernetes github.com/kubeflow/training-operator/cmd/training-operator.v1
}

build_trainer() { build trainer trainer github.com/kubeflow/trainer/v2/cmd/trainer-controller-manager; }

build_jobset() { build jobset kubernetes sigs.k8s.io/jobset; }

build_kueue() { build kueue kueue sigs.k8s.io/kueue/cmd/kueue; }
