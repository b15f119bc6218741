#!/bin/bash
# Builds the images that pods run, and prints how large they are:
#
#   images/build.sh [BASE=image] [ENGINE=docker] [GPU=1]        make images GPU=1
#
# BASE replaces the Dockerfile's own base; GPU=1 builds the worker for Nvidia GPUs as well, some 6 GB.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
source ./engine.sh
cd ..

take "$@"
case ${GPU-} in
'' | 0) ;;
1) stages+=(worker-gpu) ;;
*) refuse "GPU=$GPU: 1 builds the worker for GPUs as well, 0 does not." ;;
esac
[[ -z ${IMAGE-} ]] || refuse "make images takes no IMAGE: \`make push IMAGE=registry/name\` says where images go."
find_engine

# What the images are made of, and whether that is what the commit holds.
revision=$(git rev-parse HEAD 2>/dev/null) || revision=unknown
[[ -z $(git status --porcelain -- Dockerfile .dockerignore VERSION images requirements common training inference k8s/emulator.py 2>/dev/null) ]] ||
    revision+=-dirty

for stage in "${stages[@]}"; do
    echo "Building $(local_name "$stage"): minutes the first time, seconds after a change of the code." >&2
    "$ENGINE" build ${BASE:+--build-arg "BASE=$BASE"} --target "$stage" --tag "$(local_name "$stage")" \
        --label "org.opencontainers.image.version=$version" \
        --label "org.opencontainers.image.revision=$revision" . >&2 ||
        refuse "$ENGINE could not build $(local_name "$stage"): its last lines above say why."
done
for stage in "${stages[@]}"; do
    bytes=$("$ENGINE" image inspect --format '{{.Size}}' "$(local_name "$stage")")
    printf '%-28s %5d MB\n' "$(local_name "$stage")" $((bytes / 1000000))
done
