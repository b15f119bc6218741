#!/bin/bash
# Creates a virtual environment from its locks; takes a fraction of a second if it is up to date.
#
#   ./setup.sh PYTHON FOLDER LOCK...        ./setup.sh '' .venv worker dev
#
# PYTHON is the interpreter to use ('': a Python 3.11, 3.12 or 3.13 of this machine). The first LOCK
# (requirements/LOCK.txt) creates the environment, the others are added to it. Errors of the user are
# one sentence and exit code 2. This script runs in bash 3.2, the version of macOS.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

python=$1 venv=$2
locks=("${@:3}")
locks=("${locks[@]/#/requirements/}")
locks=("${locks[@]/%/.txt}")
stamp=$venv/installed.sha256 # the installed locks, written last
network_errors='NewConnectionError|NameResolutionError|ConnectTimeoutError|ReadTimeoutError|ProxyError|ProtocolError|HTTP error (429|5[0-9][0-9])'
pythons='3.11, 3.12 or 3.13'
[[ ${locks[0]} != requirements/tfq.txt ]] || pythons='3.11 or 3.12' # TensorFlow Quantum's

refuse() {
    printf 'qfleet: %s\n' "$1" >&2
    exit 2
}

command -v sha256sum >/dev/null || sha256sum() { shasum -a 256 "$@"; }

# Succeeds if the environment contains the current versions of the given locks.
holds() {
    [[ -x $venv/bin/python && -f $stamp ]] || return
    local sums
    # Not in one pipeline: if grep ends first, sha256sum fails, and pipefail reports that.
    sums=$(sha256sum "$@")
    ! grep -qvxFf "$stamp" <<<"$sums"
}

# Prints the version of an interpreter as 3.11; nothing if it does not run.
version() {
    "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null || true
}

check_platform() {
    local platform
    [[ ! ${locks[0]} =~ /(launch|wheel|audit|devices)\.txt$ ]] || return 0 # hold no TensorFlow
    platform="$(uname -s) $(uname -m)"
    case $platform in
    'Linux x86_64') ;;
    'Linux aarch64' | 'Darwin arm64')
        [[ ${locks[0]} != requirements/tfq.txt ]] ||
            refuse "TensorFlow Quantum is built for Linux x86_64 only, and this is $platform: use SIMULATOR=qfleet, which works without it, or a Linux x86_64 machine."
        ;;
    *) refuse "TensorFlow is built for Linux x86_64, Linux aarch64 and macOS arm64, and this is $platform: use one of these, or a container on one." ;;
    esac
}

# Sets $python to an interpreter that can create the environment.
find_python() {
    local candidate found example=/usr/bin/python3.11
    if [[ -n $python ]]; then
        found=$(version "$python")
        [[ -n $found ]] ||
            refuse "PYTHON=$python does not run: set the path of a Python $pythons, for example PYTHON=$example."
        [[ $pythons == *"$found"* ]] ||
            refuse "PYTHON=$python is Python $found: set the path of a Python $pythons, for example PYTHON=$example."
    else
        for candidate in python3.11 python3.12 python3.13 python3 python; do
            found=$(version "$candidate")
            if [[ -n $found && $pythons == *"$found"* ]]; then
                python=$candidate
                break
            fi
        done
        [[ -n $python ]] ||
            refuse "${locks[0]} needs Python $pythons, and there is none on the PATH: install it, or set its path, for example make training PYTHON=/path/to/python3.11."
    fi
    "$python" -c 'import ensurepip, venv' 2>/dev/null ||
        refuse "$python has no venv module: install it (apt-get install python3.11-venv on Debian and Ubuntu), or use another, for example make training PYTHON=/path/to/python3.11."
}

install() {
    local log=$venv/pip.log requirements=("${locks[@]/#/--requirement=}") pause
    rm -f "$stamp" # after an interruption from here on, everything is installed again
    for pause in 5 20 0; do # pip itself retries a request for a few seconds only, and not after every error
        # The locks are complete, so pip has nothing to resolve. Python compiles only what it imports.
        "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-input \
            --no-compile --no-deps --only-binary=:all: --require-hashes "${requirements[@]}" >"$log" 2>&1 && return
        if [[ $pause == 0 ]] || ! grep -qE "$network_errors" "$log"; then break; fi
        echo "The package index does not answer; trying again in $pause seconds." >&2
        sleep "$pause"
    done
    tail -n 15 "$log" >&2
    if grep -qE "$network_errors" "$log"; then
        refuse "the package index cannot be reached: check the network, then retry the command."
    fi
    refuse "pip could not install ${locks[*]} (its last lines are above, the rest in $log)."
}

# Builds the native library for workers if it is missing or its sources have changed.
build_native() {
    local stamp=$venv/native.sha256 folder=qfleet/native
    [[ ${locks[0]} =~ /(worker|tfq)\.txt$ ]] || return 0
    sha256sum --status --check "$stamp" 2>/dev/null && return
    local built
    built=$("$venv/bin/python" -m qfleet.native)
    # Without a compiler, plain TensorFlow is used, and the next call tries again.
    [[ -n $built ]] || return 0
    local files=() file
    while IFS= read -r file; do files+=("$file"); done < <(
        find "$folder" -name built -prune -o -type f ! -name '*.pyc' -print
        echo "$built"
    )
    sha256sum "${files[@]}" >"$stamp"
}

if holds "${locks[@]}"; then
    build_native
    exit
fi
check_platform
if holds "${locks[0]}"; then python=$venv/bin/python; else find_python; fi
exec 9<"${BASH_SOURCE[0]}" # a lock: two calls install one after the other
"$python" -c 'import fcntl; fcntl.flock(9, fcntl.LOCK_EX)'
if holds "${locks[@]}"; then
    build_native
    exit
fi

others=''
if holds "${locks[0]}"; then
    echo "Installing ${locks[*]:1} into $venv." >&2
    others=$(grep -vFf <(printf ' %s\n' "${locks[@]}") "$stamp" || true)
else
    echo "Installing ${locks[*]} into $venv; takes a few minutes, only the first time." >&2
    rm -rf "$venv"
    "$python" -m venv "$venv"
fi
install
{ [[ -z $others ]] || echo "$others"; sha256sum "${locks[@]}"; } >"$stamp.new"
mv "$stamp.new" "$stamp"
build_native
