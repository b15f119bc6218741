# shellcheck shell=bash
# Sourced by up.sh: the programs of the cluster, from their Go modules, and the images' base, from Debian.
source "${BASH_SOURCE[0]%/*}/common.sh"

build() { # build NAME PACKAGE [LDFLAGS]: unless its inputs and Go are what they were
  local module=${2%/pause} inputs
  inputs="$(inputs_of "$module") $(go version)"
  [[ -x $home/bin/$1 && $(cat "$home/bin/$1.inputs" 2>/dev/null) == "$inputs" ]] && return
  (cd "$here/$module" && CGO_ENABLED=0 go build -buildvcs=false -trimpath -ldflags "-s -w ${3:-}" \
    -o "$home/bin/$1" "${4:-.${2#"$module"}}")
  echo "$inputs" >"$home/bin/$1.inputs"
}

build_kubernetes() {
  local version program
  version=$(cd "$here/kubernetes" && go list -m -f '{{.Version}}' k8s.io/kubernetes)
  build kubernetes ./kubernetes "-X k8s.io/component-base/version.gitVersion=$version \
    -X k8s.io/client-go/pkg/version.gitVersion=$version"
  for program in etcd kube-apiserver kube-controller-manager kube-scheduler kubelet kube-proxy coredns kubectl; do
    ln -sf kubernetes "$home/bin/$program"
  done
}

build_operator() {
  build training-operator ./operator '' github.com/kubeflow/training-operator/cmd/training-operator.v1
}

# A stand-in for python:3.11-slim-bookworm out of Debian's packages, for a machine that reaches no image
# registry. It trusts the certificates that this machine trusts.
build_base() {
  local root mirror inputs certificates=/usr/local/share/ca-certificates
  inputs=$(inputs_of builds.sh)
  [[ $(docker image inspect -f '{{.Config.Labels.inputs}}' qfleet-base:local 2>/dev/null) == "$inputs" ]] && return
  root=$home/base
  rm -rf "$root"
  mirror=$(grep -hsoE '^(URIs:|deb) .*' /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list |
    grep -oE 'https?://[^ ]+' | head -n 1 || true)
  debootstrap --variant=minbase --include=ca-certificates,python3,python3-pip,python3-venv \
    bookworm "$root" "${mirror:-http://deb.debian.org/debian}"
  ln -s /usr/bin/python3 "$root/usr/local/bin/python"
  ln -s /usr/bin/python3 "$root/usr/local/bin/python3"
  if compgen -G "$certificates/*.crt" >/dev/null; then
    cp "$certificates"/*.crt "$root$certificates/"
    chroot "$root" update-ca-certificates
  fi
  printf '[global]\ncert = /etc/ssl/certs/ca-certificates.crt\n' >"$root/etc/pip.conf"
  rm -rf "$root"/var/cache/apt/archives/*.deb "$root"/var/lib/apt/lists/* "$root"/usr/share/{doc,man,locale}/* \
    "$root"/usr/lib/python3.11/EXTERNALLY-MANAGED
  tar -C "$root" -c . | docker import -c "LABEL inputs=$inputs" -c 'CMD ["python3"]' - qfleet-base:local
  rm -rf "$root"
}
