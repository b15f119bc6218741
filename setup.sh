#!/bin/bash
# Makes an environment from its locks, or finds it made: a fraction of a second then.
#
#   ./setup.sh PYTHON FOLDER LOCK...        ./setup.sh '' .venv worker dev
#
# PYTHON is the interpreter to make it with ('': a Python 3.11 or 3.12 of this machine); the first
# LOCK (requirements/LOCK.txt) makes it, the others are added to it. What cannot work ends with one
# sentence and exit code 2. Nothing here asks for more than bash 3.2, which is what macOS has.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

python=$1 venv=$2
locks=("${@:3}")
locks=("${locks[@]/#/requirements/}")
locks=("${locks[@]/%/.txt}")
stamp=$venv/installed.sha256 # the locks that it holds, written last

refuse() {
    printf 'qfleet: %s\n' "$1" >&2
    exit 2
}

command -v sha256sum >/dev/null || sha256sum() { shasum -a 256 "$@"; }

# Whether the environment holds the given locks, each as it is now.
holds() {
    [[ -x $venv/bin/python && -f $stamp ]] || return
    local sums
    # Not in one pipeline: where grep ends first, the pipeline's failure is sha256sum's.
    sums=$(sha256sum "$@")
    ! grep -qvxFf "$stamp" <<<"$sums"
}

# Prints the version of an interpreter as 3.11; nothing if it does not run.
version() {
    "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null || true
}

check_platform() {
    local platform
    [[ ${locks[0]} != requirements/launch.txt ]] || return 0 # holds no TensorFlow
    platform="$(uname -s) $(uname -m)"
    case $platform in
    'Linux x86_64') ;;
    'Linux aarch64' | 'Darwin arm64')
        [[ " ${locks[*]} " != *' requirements/tfq.txt '* ]] ||
            refuse "TensorFlow Quantum is built for Linux x86_64 only, and this is $platform: use SIMULATOR=qfleet, which needs none, or such a machine."
        ;;
    *) refuse "TensorFlow is built for Linux x86_64, Linux aarch64 and macOS arm64, and this is $platform: use such a machine, or a container on one." ;;
    esac
}

# Sets $python to an interpreter that can make the environment.
find_python() {
    local candidate found
    if [[ -n $python ]]; then
        found=$(version "$python")
        [[ -n $found ]] ||
            refuse "PYTHON=$python does not run: give the path of a Python 3.11 or 3.12, as in PYTHON=/usr/bin/python3.11."
        [[ $found == 3.1[12] ]] ||
            refuse "PYTHON=$python is Python $found: give the path of a Python 3.11 or 3.12, as in PYTHON=/usr/bin/python3.11."
    else
        for candidate in python3.11 python3.12 python3 python; do
            if [[ $(version "$candidate") == 3.1[12] ]]; then
                python=$candidate
                break
            fi
        done
        [[ -n $python ]] ||
            refuse "qfleet needs Python 3.11 or 3.12, and there is none on the PATH: install it, or say where it is, as in make training PYTHON=/path/to/python3.11."
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

# Builds the native kernel where a worker will need it and it, or a source of it, has changed.
build_kernel() {
    local stamp=$venv/kernel.sha256 folder=qfleet/native
    [[ ${locks[0]} == requirements/worker.txt ]] || return 0
    sha256sum --status --check "$stamp" 2>/dev/null && return
    local built
    built=$("$venv/bin/python" -m qfleet.native)
    # Where there is none, plain TensorFlow serves, and the next verb tries again.
    [[ -z $built ]] || sha256sum "$folder"/*.{cc,h,py} "$built" >"$stamp"
}

if holds "${locks[@]}"; then
    build_kernel
    exit
fi
check_platform
if holds "${locks[0]}"; then python=$venv/bin/python; else find_python; fi
exec 9<"${BASH_SOURCE[0]}" # two verbs in two terminals take turns
"$python" -c 'import fcntl; fcntl.flock(9, fcntl.LOCK_EX)'
if holds "${locks[@]}"; then
    build_kernel
    exit
fi

others=''
if holds "${locks[0]}"; then
    echo "Adding ${locks[*]:1} to $venv." >&2
    others=$(grep -vFf <(printf ' %s\n' "${locks[@]}") "$stamp" || true)
else
    echo "Setting up $venv from ${locks[*]}: a couple of minutes, this first time only." >&2
    rm -rf "$venv"
    "$python" -m venv "$venv"
fi
install
{ [[ -z $others ]] || echo "$others"; sha256sum "${locks[@]}"; } >"$stamp.new"
mv "$stamp.new" "$stamp"
build_kernel
