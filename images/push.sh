#!/bin/bash
# Pushes the images that `make images` built, and prints their digests:
#
#   images/push.sh IMAGE=registry/name [ENGINE=docker]          make push IMAGE=registry/name
#
# registry/name becomes registry/name-worker and so on. The digests are written to .images.json for
# `make manifests`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
source ./engine.sh
cd ..

take "$@"
[[ -z ${BASE-}${GPU-}${QUICK-}${WHEEL-} ]] || refuse "make push takes only IMAGE and ENGINE: it pushes the images that \`make images\` built."
IMAGE=${IMAGE-}
[[ -n $IMAGE ]] || refuse 'make push needs IMAGE, for example make push IMAGE=europe-docker.pkg.dev/project/repository/qfleet.'
[[ $IMAGE =~ ^[a-z0-9.-]+(:[0-9]+)?(/[a-z0-9]+([._-]+[a-z0-9]+)*)+$ ]] ||
    refuse "IMAGE=$IMAGE is not registry/name in lower case without a tag, for example europe-docker.pkg.dev/project/repository/qfleet."
registry=${IMAGE%%/*}
find_engine

# Ends with the cause of a failed push, which is the last line of the engine's output.
explain() {
    local cause
    cause=$(tail -n 1 "$log")
    case $cause in
    *denied* | *nauthorized* | *'no basic auth'* | *orbidden*)
        refuse "$registry denies the push to $1 ($cause): sign in with \`$ENGINE login $registry\`, or for Google Cloud \`gcloud auth configure-docker $registry\`, and check that the repository exists and that you may write to it."
        ;;
    *'no such host'* | *refused* | *timeout* | *unreachable* | *'HTTP response to HTTPS'*)
        refuse "$registry cannot be reached ($cause): check IMAGE and the network, then retry the command."
        ;;
    esac
    refuse "$ENGINE could not push $1: $cause"
}

for stage in "${stages[@]}"; do
    have "$stage" || refuse "there is no image $(local_name "$stage"): \`make images\` builds it."
done
! have worker-gpu || stages+=(worker-gpu)

log=$(mktemp)
trap 'rm -f "$log"' EXIT
json=''
for stage in "${stages[@]}"; do
    name=$IMAGE-$stage
    "$ENGINE" tag "$(local_name "$stage")" "$name:$version"
    echo "Pushing $name:$version." >&2
    "$ENGINE" push "$name:$version" >"$log" 2>&1 || explain "$name"
    digest=$("$ENGINE" image inspect --format '{{range .RepoDigests}}{{println .}}{{end}}' "$name:$version" |
        grep -F "$name@sha256:" | tail -n 1) ||
        refuse "$ENGINE pushed $name:$version, but does not report its digest."
    echo "$digest"
    json+="${json:+,}"$'\n'"  \"$stage\": \"$digest\""
done
printf '{%s\n}\n' "$json" >.images.json
echo "Next: make manifests OVERLAY=gke IMAGE=$IMAGE"
