# shellcheck shell=bash
# Sourced by up.sh and second_node.sh: the namespaces that hold the cluster, and the programs of a node.
source "${BASH_SOURCE[0]%/*}/common.sh"

changed_settings=(net.ipv4.ip_forward vm.overcommit_memory vm.panic_on_oom kernel.panic kernel.panic_on_oops
  kernel.keys.root_maxkeys kernel.keys.root_maxbytes) # the first by us, the others by the kubelet

# Folders whose names runc, CNI, docker and the kubelet have compiled in: the cluster gets empty ones.
private=(/run/netns /run/containerd /run/docker /var/lib/cni /var/lib/kubelet)

open_namespaces() {
  mkdir -p "$state"/{logs,images,conf,pods}
  [[ -e $home/sysctl ]] || sysctl "${changed_settings[@]}" >"$home/sysctl" 2>/dev/null
  setsid unshare --net --mount --propagation slave --pid --fork --kill-child --mount-proc "$home/bin/pause" \
    </dev/null >"$state/logs/pause.log" 2>&1 9>&- &
  wait_for 5 pgrep --parent $! pause
  pgrep --parent $! >"$node_pid"

  ip link add "$cable" type veth peer name eth0 netns "$(first_process)"
  ip address add "$gateway/30" dev "$cable"
  ip link set "$cable" up
  enter ip link set lo up
  enter ip address add "$node_ip/30" dev eth0
  enter ip link set eth0 up
  enter ip route add default via "$gateway"
  enter sysctl -qw net.ipv4.ip_forward=1
  sysctl -qw net.ipv4.ip_forward=1
  iptables_rules --insert

  hide_folders
  make_cgroup

  # A resolver on a loopback address cannot be reached from here; systemd lists the real ones in another file.
  if grep -q '^nameserver 127\.' /etc/resolv.conf; then
    cp /run/systemd/resolve/resolv.conf "$state/resolv.conf"
  else
    cp /etc/resolv.conf "$state/resolv.conf"
  fi
}

hide_folders() {
  local path
  mkdir -p "${private[@]}"
  for path in "${private[@]}"; do enter mount -t tmpfs tmpfs "$path"; done
}

make_cgroup() { # the parent of all containers, by which down.sh finds their cgroups
  local controller hierarchy
  if [[ -e /sys/fs/cgroup/cgroup.controllers ]]; then # version 2
    for controller in $(</sys/fs/cgroup/cgroup.controllers); do
      echo "+$controller" >/sys/fs/cgroup/cgroup.subtree_control || true # some are not for children
    done
    mkdir -p "/sys/fs/cgroup/$cgroup"
  else
    for hierarchy in /sys/fs/cgroup/*/; do mkdir -p "$hierarchy/$cgroup"; done
  fi
}

iptables_rules() { # iptables_rules --insert | --delete: the way out of the namespaces, and for answers back in
  iptables --wait --table nat "$1" POSTROUTING --source "$node_ip" ! --out-interface "$cable" --jump MASQUERADE
  iptables --wait "$1" FORWARD --in-interface "$cable" --jump ACCEPT
  iptables --wait "$1" FORWARD --out-interface "$cable" --jump DROP
  iptables --wait "$1" FORWARD --out-interface "$cable" --match conntrack --ctstate RELATED,ESTABLISHED --jump ACCEPT
}

control_plane_answers() {
  first_process >/dev/null && kubectl --request-timeout=3s get --raw /readyz >/dev/null 2>&1
}

configure() { # configure FILE...: conf/FILE into the node's state, its @NAMES@ filled in
  local file
  for file in "$@"; do
    mkdir -p "$(dirname "$node_state/conf/$file")"
    sed -e "s|@HOME@|$home|g; s|@STATE@|$state|g; s|@NODE_STATE@|$node_state|g; s|@NODE_IP@|$node_ip|g" \
      -e "s|@SUBNET@|$subnet|g; s|@CGROUP@|$cgroup|g; s|@TOKEN@|$(cat "$state/token")|g" \
      -e "s|@CERTIFICATE@|$(base64 -w0 "$state/certificates/apiserver.crt" 2>/dev/null)|g" \
      "$here/conf/$file" >"$node_state/conf/$file"
  done
}

load_images() { # load_images IMAGE...: hand those that changed from docker to the node
  local image changed=()
  for image in "$@"; do
    [[ $(docker image inspect -f '{{.Id}}' "$image") == "$(cat "$node_state/images/${image//\//_}" 2>/dev/null)" ]] ||
      changed+=("$image")
  done
  ((${#changed[@]})) || return 0
  docker save "${changed[@]}" | enter ctr --address "$node_state/containerd.sock" --namespace k8s.io images import -
  for image in "${changed[@]}"; do
    docker image inspect -f '{{.Id}}' "$image" >"$node_state/images/${image//\//_}"
  done
}

start_control_plane() {
  local key=$state/service-account.key kubeconfig=$home/kubeconfig
  (umask 077 && openssl rand -hex 16 >"$state/token" && openssl genrsa -out "$key" 2048 &&
    echo "$(cat "$state/token"),admin,admin,system:masters" >"$state/tokens.csv" &&
    openssl req -x509 -newkey rsa:2048 -nodes -days 365 -subj "/O=system:masters/CN=kube-apiserver" \
      -keyout "$state/kubelet-client.key" -out "$state/kubelet-client.crt")
  daemon etcd "$home/bin/etcd" --data-dir "$state/etcd" --unsafe-no-fsync
  daemon kube-apiserver "$home/bin/kube-apiserver" --etcd-servers http://127.0.0.1:2379 \
    --cert-dir "$state/certificates" --advertise-address "$node_ip" --service-cluster-ip-range 10.96.0.0/16 \
    --token-auth-file "$state/tokens.csv" --authorization-mode RBAC --allow-privileged \
    --kubelet-preferred-address-types InternalIP --kubelet-client-certificate "$state/kubelet-client.crt" \
    --kubelet-client-key "$state/kubelet-client.key" --service-account-issuer https://kubernetes.default.svc \
    --service-account-key-file "$key" --service-account-signing-key-file "$key"
  wait_for 30 test -s "$state/certificates/apiserver.crt"
  configure kubeconfig
  install -m 600 "$state/conf/kubeconfig" "$kubeconfig"
  wait_for 60 kubectl get --raw /readyz

  daemon kube-controller-manager "$home/bin/kube-controller-manager" --kubeconfig "$kubeconfig" \
    --leader-elect=false --service-account-private-key-file "$key" --root-ca-file "$state/certificates/apiserver.crt"
  daemon kube-scheduler "$home/bin/kube-scheduler" --kubeconfig "$kubeconfig" --leader-elect=false
}

start_containerd() { # it takes images before the node's other programs run
  ! enter ctr --address "$node_state/containerd.sock" version >/dev/null 2>&1 || return 0
  configure containerd.toml
  daemon containerd containerd --config "$node_state/conf/containerd.toml"
  wait_for 30 enter ctr --address "$node_state/containerd.sock" version
}

# The programs of a node. Policies are enforced before its first pod starts.
start_kubelet() {
  start_containerd
  configure kubelet.yaml kube-proxy.yaml cni/bridge.conflist
  enter iptables --wait --table nat --append POSTROUTING --source "$subnet" ! --destination $all_pods --jump MASQUERADE
  daemon kube-proxy "$home/bin/kube-proxy" --config "$node_state/conf/kube-proxy.yaml" --hostname-override "$node"
  daemon policies /usr/bin/python3 "$here/policies/agent.py" "$node" "$node_state/policies.sock"
  wait_for 10 test -S "$node_state/policies.sock"
  load_images localhost/pause:1
  daemon kubelet "$home/bin/kubelet" --kubeconfig "$home/kubeconfig" --config "$node_state/conf/kubelet.yaml" \
    --hostname-override "$node" --node-ip "$node_ip" --root-dir "$node_state/kubelet" --cert-dir "$node_state/kubelet/pki"
  wait_for 60 kubectl wait --for=condition=Ready "node/$node" --timeout=1s
}

start_node() {
  mkdir -p "$state/cni"
  ln -sf /usr/lib/cni/* "$state/cni/"
  install -m 755 "$here/policies/plugin.py" "$state/cni/policies"
  start_control_plane
  start_kubelet
  wait_for 60 kubectl get serviceaccount default
  load_images localhost/coredns:1
  configure coredns.yaml
  kubectl apply --server-side -f "$state/conf/coredns.yaml"
  kubectl -n kube-system rollout status deployment/coredns --timeout=60s
}
