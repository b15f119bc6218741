#!/bin/bash
# Builds the images that pods run, and prints how large they are:
#
#   images/build.sh [BASE=image] [ENGINE=docker] [GPU=1] [WHEEL=file]        make images GPU=1
#
# BASE replaces the Dockerfile's own base; GPU=1 builds the worker for Nvidia GPUs as well, some 6 GB.
# WHEEL is a wheel of a release; without it, the wheel of this checkout is built. QUICK=1, for tests, puts the
# libraries of .venv into that wheel.
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
case ${QUICK-} in
'' | 0) quick=() ;;
1) quick=(--quick) ;;
*) refuse "QUICK=$QUICK: 1 takes the libraries of this checkout, 0 compiles them for every Linux." ;;
esac
[[ -z ${WHEEL-} || -f $WHEEL ]] || refuse "WHEEL=$WHEEL does not exist: give a wheel of qfleet for Linux, or none."
[[ -z ${IMAGE-} ]] || refuse "make images takes no IMAGE: set it for the push, as in \`make push IMAGE=registry/name\`."
find_engine

# The commit that the images are built from; -dirty if the working tree differs from it.
revision=$(git rev-parse HEAD 2>/dev/null) || revision=unknown
[[ -z $(git status --porcelain --untracked-files=no 2>/dev/null) ]] || revision+=-dirty

# The Dockerfile takes the wheels from dist/images; WHEEL may lie there.
new=dist/images.new
rm -rf $new
mkdir -p $new
if [[ -n ${WHEEL-} ]]; then
    cp "$WHEEL" $new
    revision=unknown
else
    [[ $(uname) == Linux ]] || refuse "only Linux builds the wheel of an image: set WHEEL to one of a release."
    echo "Building the wheel of qfleet: takes minutes." >&2
    .venv-wheel/bin/python -m tools.wheel --changes --out=$new "${quick[@]}" "linux-$(uname -m)" >&2 ||
        refuse "the wheel of qfleet could not be built: see the last lines above."
fi
if [[ " ${stages[*]} " == *" worker-gpu "* ]]; then
    .venv-wheel/bin/python -m tools.wheel --out=$new/cuda cuda >&2 ||
        refuse "the wheel for GPUs could not be built: see the last lines above."
fi

rm -rf dist/images
mv $new dist/images
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
