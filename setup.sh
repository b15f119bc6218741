#!/bin/bash
# Makes an environment from its locks, or finds it made: a fraction of a second then.
#
#   ./setup.sh PYTHON FOLDER LOCK...        ./setup.sh '' .venv worker dev
#
# PYTHON is the interpreter to make it with ('': the Python 3.11 of this machine); LOCK names
# requirements/LOCK.txt. What cannot work ends with one sentence and exit code 2.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

python=$1 venv=$2
locks=("${@:3}")
locks=("${locks[@]/#/requirements/}")
locks=("${locks[@]/%/.txt}")
stamp=$venv/installed.sha256 # the locks that it was made from, written last

refuse() {
    printf 'qfleet: %s\n' "$1" >&2
    exit 2
}

# Whether the environment holds the given locks, each as it is now.
holds() {
    [[ -x $venv/bin/python && -f $stamp ]] && ! sha256sum "$@" | grep -qvxFf "$stamp"
}

# Prints the version of an interpreter as 3.11; nothing if it does not run.
version() {
    "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null || true
}

check_platform() {
    local platform
    platform="$(uname -s) $(uname -m)"
    [[ $platform == 'Linux x86_64' ]] ||
        refuse "TensorFlow Quantum is built for Linux x86_64 only, and this is $platform: use such a machine, or a container on one."
}

# Sets $python to an interpreter that can make the environment.
find_python() {
    local candidate found
    if [[ -n $python ]]; then
        found=$(version "$python")
        [[ -n $found ]] ||
            refuse "PYTHON=$python does not run: give the path of a Python 3.11, as in PYTHON=/usr/bin/python3.11."
        [[ $found == 3.11 ]] ||
            refuse "PYTHON=$python is Python $found: give the path of a Python 3.11, as in PYTHON=/usr/bin/python3.11."
    else
        for candidate in python3.11 python3 python; do
            if [[ $(version "$candidate") == 3.11 ]]; then
                python=$candidate
                break
            fi
        done
        [[ -n $python ]] ||
            refuse "qfleet needs Python 3.11, and there is none on the PATH: install it, or say where it is, as in make training PYTHON=/path/to/python3.11."
    fi
    "$python" -c 'import ensurepip, venv' 2>/dev/null ||
        refuse "$python has no venv module: install it (apt-get install python3.11-venv on Debian and Ubuntu), or name another, as in make training PYTHON=/path/to/python3.11."
}

install() {
    local log=$venv/pip.log requirements=("${locks[@]/#/--requirement=}")
    # The locks are complete, so pip has nothing to resolve.
    rm -f "$stamp" # from here on, an interruption means starting over
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-input \
        --no-deps --only-binary=:all: --require-hashes "${requirements[@]}" >"$log" 2>&1 && return
    tail -n 15 "$log" >&2
    if grep -qE 'NewConnectionError|NameResolutionError|ConnectTimeoutError|ProxyError' "$log"; then
        refuse "the package index cannot be reached: check the network, then say the same again."
    fi
    refuse "pip could not install ${locks[*]} (its last lines are above, the rest in $log)."
}

holds "${locks[@]}" && exit
check_platform
exec {turn}<"${BASH_SOURCE[0]}" # two verbs in two terminals take turns
flock "$turn"
holds "${locks[@]}" && exit

if ! holds "${locks[0]}"; then
    find_python
    echo "Setting up $venv from ${locks[*]}: a couple of minutes, this first time only." >&2
    rm -rf "$venv"
    "$python" -m venv "$venv"
else
    echo "Adding ${locks[*]:1} to $venv." >&2
fi
install
sha256sum "${locks[@]}" >"$stamp.new"
mv "$stamp.new" "$stamp"
