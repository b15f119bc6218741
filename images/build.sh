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
[[ -z ${IMAGE-} ]] || refuse "make images takes no IMAGE: set it for the push, as in \`make push IMAGE=registry/name\`."
find_engine

# The commit that the images are built from; -dirty if the working tree differs from it.
revision=$(git rev-parse HEAD 2>/dev/null) || revision=unknown
[[ -z $(git status --porcelain -- Dockerfile .dockerignore VERSION images requirements common qfleet training inference launch/{__init__,emulator,tensorboard_launcher}.py 2>/dev/null) ]] ||
    revision+=-dirty

for stage in "${stages[@]}"; do
    echo "Building $(local_name "$stage"): takes minutes the first time, seconds after a change of the code." >&2
    "$ENGINE" build ${BASE:+--build-arg "BASE=$BASE"} --target "$stage" --tag "$(local_name "$stage")" \
        --label "org.opencontainers.image.version=$version" \
        --label "org.opencontainers.image.revision=$revision" . >&2 ||
        refuse "$ENGINE could not build $(local_name "$stage"): see its last lines above."
done
for stage in "${stages[@]}"; do
    bytes=$("$ENGINE" image inspect --format '{{.Size}}' "$(local_name "$stage")")
    printf '%-28s %5d MB\n' "$(local_name "$stage")" $((bytes / 1000000))
done
