# shellcheck shell=bash
# What building and pushing share: the settings, the engine, the images' names.
# shellcheck disable=SC2034

stages=(storage tensorboard worker) # in the order of the Dockerfile
version=$(<../VERSION)

refuse() {
    printf 'qfleet: %s\n' "$1" >&2
    exit 2
}

# Sets BASE, ENGINE, GPU and IMAGE from NAME=value words.
take() {
    local word
    ENGINE=docker
    unset BASE GPU IMAGE # given as words alone, not by the environment
    for word in "$@"; do
        case $word in
        BASE=* | ENGINE=* | GPU=* | IMAGE=*) printf -v "${word%%=*}" %s "${word#*=}" ;;
        *) refuse "there is no setting ${word%%=*} here: BASE, ENGINE and GPU go with \`make images\`, IMAGE and ENGINE with \`make push\`." ;;
        esac
    done
}

find_engine() {
    local said
    command -v "$ENGINE" >/dev/null ||
        refuse "there is no $ENGINE on the PATH: install it, or name another, as in ENGINE=podman."
    said=$("$ENGINE" info 2>&1 >/dev/null) && return
    case $said in
    *'permission denied'*)
        refuse "$ENGINE runs, but not for you: join its group (sudo usermod -aG docker \"\$USER\", then sign in anew), or use ENGINE=podman."
        ;;
    esac
    refuse "$ENGINE does not answer (${said##*$'\n'}): start it, then say the same again."
}

# The image of a stage on this machine.
local_name() { echo "qfleet-$1:$version"; }

have() { "$ENGINE" image inspect "$(local_name "$1")" >/dev/null 2>&1; }
