#!/bin/bash
# Pushes the images that `make images` built, and prints their digests:
#
#   images/push.sh IMAGE=registry/name [ENGINE=docker]          make push IMAGE=registry/name
#
# registry/name becomes registry/name-worker and so on. .images.json keeps what was pushed, by digest,
# for `make manifests`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
source ./engine.sh
cd ..

take "$@"
[[ -z ${BASE-}${GPU-} ]] || refuse "make push takes no BASE and no GPU: it pushes what \`make images\` built."
IMAGE=${IMAGE-}
[[ -n $IMAGE ]] || refuse 'make push needs IMAGE, as in make push IMAGE=europe-docker.pkg.dev/project/repository/qfleet.'
[[ $IMAGE =~ ^[a-z0-9.-]+(:[0-9]+)?(/[a-z0-9]+([._-]+[a-z0-9]+)*)+$ ]] ||
    refuse "IMAGE=$IMAGE is not registry/name in lower case without a tag, as in europe-docker.pkg.dev/project/repository/qfleet."
registry=${IMAGE%%/*}
find_engine

# Prints why a push failed: the last sentence that the engine said.
explain() {
    local said
    said=$(tail -n 1 "$log")
    case $said in
    *denied* | *nauthorized* | *'no basic auth'* | *orbidden*)
        refuse "$registry does not let you push to $1 ($said): sign in with \`$ENGINE login $registry\`, or for Google Cloud \`gcloud auth configure-docker $registry\`, and see that the repository exists and is yours to write to."
        ;;
    *'no such host'* | *refused* | *timeout* | *unreachable* | *'HTTP response to HTTPS'*)
        refuse "$registry cannot be reached ($said): check IMAGE and the network, then say the same again."
        ;;
    esac
    refuse "$ENGINE could not push $1: $said"
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
        refuse "$ENGINE pushed $name:$version, but does not say by which digest."
    echo "$digest"
    json+="${json:+,}"$'\n'"  \"$stage\": \"$digest\""
done
printf '{%s\n}\n' "$json" >.images.json
echo "Next: make manifests OVERLAY=gke IMAGE=$IMAGE"
