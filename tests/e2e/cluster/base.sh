# shellcheck shell=bash
# Sourced by up.sh: the image that the project's images are built on.
source "${BASH_SOURCE[0]%/*}/common.sh"

# A stand-in for python:3.11-slim-bookworm out of Debian's packages, for a machine that reaches no image
# registry. It trusts the certificates that this machine trusts.
build_base() {
  local root mirror inputs certificates=/usr/local/share/ca-certificates
  inputs=$(inputs_of base.sh)
  [[ $(docker image inspect -f '{{.Config.Labels.inputs}}' qfleet-base:local 2>/dev/null) == "$inputs" ]] && return
  root=$home/base
  rm -rf "$root"
  mirror=$(grep -hsoE '^(URIs:|deb) .*' /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list |
    grep -oE 'https?://[^ ]+' | head -n 1 || true)
  # Like Debian's slim images: /usr is merged without perl, no documentation, and dpkg does not wait for the disk.
  mmdebstrap --variant=minbase --include=usr-is-merged,ca-certificates,python3,python3-pip,python3-venv \
    --hook-dir=/usr/share/mmdebstrap/hooks/merged-usr --dpkgopt=force-unsafe-io \
    --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
    --dpkgopt='path-exclude=/usr/share/locale/*' bookworm "$root" "${mirror:-http://deb.debian.org/debian}"
  ln -s /usr/bin/python3 "$root/usr/local/bin/python"
  ln -s /usr/bin/python3 "$root/usr/local/bin/python3"
  if compgen -G "$certificates/*.crt" >/dev/null; then
    cp "$certificates"/*.crt "$root$certificates/"
    chroot "$root" update-ca-certificates
  fi
  printf '[global]\ncert = /etc/ssl/certs/ca-certificates.crt\n' >"$root/etc/pip.conf"
  rm "$root"/usr/lib/python3.11/EXTERNALLY-MANAGED
  tar -C "$root" -c . | docker import -c "LABEL inputs=$inputs" -c 'CMD ["python3"]' - qfleet-base:local
  rm -rf "$root"
}
