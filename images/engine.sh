# shellcheck shell=bash
# Shared by build.sh and push.sh: settings, container engine, image names.
# shellcheck disable=SC2034

stages=(storage tensorboard worker) # in the order of the Dockerfile
version=$(<../VERSION)

refuse() {
    printf 'qfleet: %s\n' "$1" >&2
    exit 2
}

# Sets BASE, ENGINE, GPU, IMAGE, QUICK and WHEEL from NAME=value arguments.
take() {
    local word
    ENGINE=docker
    unset BASE GPU IMAGE QUICK WHEEL # the environment is not used
    for word in "$@"; do
        case $word in
        BASE=* | ENGINE=* | GPU=* | IMAGE=* | QUICK=* | WHEEL=*) printf -v "${word%%=*}" %s "${word#*=}" ;;
        *) refuse "there is no setting ${word%%=*} here: \`make images\` takes BASE, ENGINE, GPU, QUICK and WHEEL, \`make push\` takes IMAGE and ENGINE." ;;
        esac
    done
}

find_engine() {
    local output
    command -v "$ENGINE" >/dev/null ||
        refuse "there is no $ENGINE on the PATH: install it, or set another, for example ENGINE=podman."
    output=$("$ENGINE" info 2>&1 >/dev/null) && return
    case $output in
    *'permission denied'*)
        refuse "$ENGINE runs, but you have no permission to use it: join its group (sudo usermod -aG docker \"\$USER\", then sign in again), or use ENGINE=podman."
        ;;
    esac
    refuse "$ENGINE does not answer (${output##*$'\n'}): start it, then retry the command."
}

# The image of a stage on this machine.
local_name() { echo "qfleet-$1:$version"; }

have() { "$ENGINE" image inspect "$(local_name "$1")" >/dev/null 2>&1; }
