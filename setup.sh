#!/bin/bash
# Creates a virtual environment from its locks; takes a fraction of a second if it is up to date.
#
#   ./setup.sh PYTHON FOLDER LOCK...        ./setup.sh '' .venv worker dev
#
# PYTHON is the interpreter to use ('': a Python 3.11, 3.12 or 3.13 of this machine). The first LOCK
# (requirements/LOCK.txt) creates the environment, the others are added to it. uv installs them; it is
# itself installed from requirements/installer.txt into .uv. Errors of the user are one sentence and
# exit code 2. This script runs in bash 3.2, the version of macOS.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

python=$1 venv=$2
locks=("${@:3}")
locks=("${locks[@]/#/requirements/}")
locks=("${locks[@]/%/.txt}")
stamp=$venv/installed.sha256 # the installed locks, written last
network_errors='NewConnectionError|NameResolutionError|ConnectTimeoutError|ReadTimeoutError|ProxyError|ProtocolError'
network_errors+='|HTTP error (429|5[0-9][0-9])|error sending request|[Ff]ailed to fetch|timed out|connection (closed|reset)'
pythons='3.11, 3.12 or 3.13'
[[ ${locks[0]} != requirements/tfq.txt ]] || pythons='3.11 or 3.12' # TensorFlow Quantum's

refuse() {
    printf 'qfleet: %s\n' "$1" >&2
    exit 2
}

command -v sha256sum >/dev/null || sha256sum() { shasum -a 256 "$@"; }

# holds STAMP FILE...: succeeds if the stamp has the current digests of these files.
holds() {
    [[ -x ${1%/*}/bin/python && -f $1 ]] || return
    local sums
    # Not in one pipeline: if grep ends first, sha256sum fails, and pipefail reports that.
    sums=$(sha256sum "${@:2}")
    ! grep -qvxFf "$1" <<<"$sums"
}

# Prints the version of an interpreter as 3.11; nothing if it does not run.
version() {
    "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null || true
}

# report_waiting WHAT: prints every few seconds what this script waits for, until it ends.
report_waiting() {
    local seconds=9 passed=0
    [[ ! -t 2 ]] || seconds=4
    stop_reporting
    while sleep $seconds >/dev/null 2>&1 && kill -0 $$ 2>/dev/null; do
        passed=$((passed + seconds))
        echo "Waiting: $1 ($passed s)" >&2
    done 9>&- & # does not hold the lock
    reporter=$!
}

stop_reporting() {
    [[ -z $reporter ]] || kill "$reporter" 2>/dev/null || true
}
reporter=
trap stop_reporting EXIT

check_platform() {
    local platform
    [[ ! ${locks[0]} =~ /(launch|wheel)\.txt$ ]] || return 0 # hold no TensorFlow
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

# lock FILE: waits until no other call holds it, and holds it until this script ends.
lock() {
    exec 9<"$1"
    "$python" -c 'import fcntl; fcntl.flock(9, fcntl.LOCK_EX)'
}

# explain LOG: ends with the cause of a failed installation.
explain() {
    tail -n 15 "$1" >&2
    if grep -qE "$network_errors" "$1"; then
        refuse "the package index cannot be reached: check the network, then retry the command."
    fi
    refuse "${locks[*]} could not be installed (the last lines are above, the rest in $1)."
}

# Installs uv, which retries requests, downloads in parallel and links files from one cache.
install_uv() {
    local installer=requirements/installer.txt
    ! holds .uv/installed.sha256 $installer || return 0
    lock "${BASH_SOURCE[0]}"
    ! holds .uv/installed.sha256 $installer || return 0
    rm -rf .uv
    "$python" -m venv .uv
    .uv/bin/python -m pip install --quiet --disable-pip-version-check --no-input --retries=10 --no-deps \
        --only-binary=:all: --require-hashes --requirement=$installer >.uv/pip.log 2>&1 || explain .uv/pip.log
    # pip's index is uv's too.
    .uv/bin/python -m pip --disable-pip-version-check config get global.index-url >.uv/index 2>/dev/null || true
    sha256sum $installer >.uv/installed.sha256
}

# Makes the environment what its locks say: those given, and those that it has already.
install() {
    local index lock others=() requirements=("${locks[@]}")
    index=${UV_DEFAULT_INDEX:-${PIP_INDEX_URL:-$(cat .uv/index)}}
    if [[ -f $stamp ]]; then
        while read -r _ lock; do
            [[ " ${locks[*]} " == *" $lock "* || ! -f $lock ]] || others+=("$lock")
        done <"$stamp"
    fi
    rm -f "$stamp" # after an interruption from here on, everything is installed again
    export UV_SYSTEM_CERTS=1 UV_HTTP_RETRIES=${UV_HTTP_RETRIES:-5} UV_LINK_MODE=${UV_LINK_MODE:-hardlink} UV_NO_CONFIG=1
    # The locks are complete, so there is nothing to resolve. Python compiles only what it imports.
    .uv/bin/uv pip sync --quiet --python "$venv" ${index:+--default-index "$index"} --allow-empty-requirements \
        --no-build --require-hashes "${requirements[@]}" ${others[@]+"${others[@]}"} >"$venv/install.log" 2>&1 ||
        explain "$venv/install.log"
    sha256sum "${locks[@]}" ${others[@]+"${others[@]}"} >"$stamp.new"
    mv "$stamp.new" "$stamp"
}

# Builds the native library for workers if it is missing or its sources have changed.
build_native() {
    local stamp=$venv/native.sha256 folder=qfleet/native
    [[ ${locks[0]} =~ /(worker|tfq)\.txt$ ]] || return 0
    sha256sum --status --check "$stamp" 2>/dev/null && return
    local built
    report_waiting "the native engine, which is compiled if there is a compiler"
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

if holds "$stamp" "${locks[@]}"; then
    build_native
    exit
fi
check_platform
if [[ -f $stamp && -x $venv/bin/python ]]; then python=$venv/bin/python; else find_python; fi
report_waiting "the installation of ${locks[*]} into $venv"
install_uv
mkdir -p "$venv"
lock "$venv" # two calls install one after the other
if holds "$stamp" "${locks[@]}"; then
    build_native
    exit
fi
echo "Installing ${locks[*]} into $venv; takes a minute or more, only the first time." >&2
if [[ ! -f $stamp || ! -x $venv/bin/python ]]; then # new, interrupted, or its Python is gone
    [[ $python != "$venv"/* ]] || find_python
    find "$venv" -mindepth 1 -delete
    .uv/bin/uv venv --quiet --allow-existing --no-config --no-python-downloads --python "$python" "$venv"
fi
install
build_native
