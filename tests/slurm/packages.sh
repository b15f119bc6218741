#!/bin/bash
# Unpacks Debian's Slurm and munge into a folder, without installing them: packages.sh FOLDER
set -euo pipefail

folder=$1
packages=(slurmctld slurmd slurm-client slurm-wlm-basic-plugins munge libmunge2 libhwloc15 liblua5.1-0)

mkdir -p "$folder/packages" "$folder/root"
exec {lock}>"$folder/lock" # two tests may call this at the same time
flock "$lock"
[[ ! -e $folder/complete ]] || exit 0
cd "$folder/packages"
# apt's own user may not be able to write here; the download then runs as this user, with a warning.
apt-get download -qq "${packages[@]}" 2>"$folder/apt.log" || {
    cat "$folder/apt.log" >&2
    exit 1
}
for package in *.deb; do
    dpkg-deb --extract "$package" "$folder/root"
done
touch "$folder/complete"
