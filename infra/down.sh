#!/bin/bash
# Destroys what infra-up made on Google Cloud, and nothing else; says first what is lost by it, and asks.
#
#   infra/down.sh [PARAMETERS=file] [DRY_RUN=1] [YES=1] [NAME=value ...]        see infra/README.md
#
# What infra-up made bears managed-by=qfleet. After a failure or Ctrl-C the same command goes on.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. infra/parameters.sh
. infra/gcloud.sh
. infra/checks.sh

lost=() kept=()     # what is there, in words
doomed_accounts=()  # of those to go

# sort_out LABEL ADOPTED WHAT LOSS: whether WHAT goes or stays.
sort_out() {
    if [[ $1 == "${MADE#*=}" || $1 == "$MADE" ]] && [[ -z $2 ]]; then
        lost+=("$3${4:+, $4}")
        return 0
    fi
    kept+=("$3, which infra-up did not make")
    return 1
}

look_at_cluster() {
    local pool label
    find_cluster
    doomed_cluster='' doomed_pool=''
    [[ -n $cluster ]] || return 0
    if sort_out "$cluster_label" "$ADOPT_CLUSTER" "the cluster $CLUSTER in $location" 'its nodes and all that runs on them'; then
        doomed_cluster=yes
        return
    fi
    kept+=("the training operator in $CLUSTER, which others may use: kubectl delete --kustomize='$OPERATOR' takes it away with all jobs")
    [[ $autopilot != True ]] || return 0
    pool=$(pool_row "$location")
    [[ -n $pool ]] || return 0
    IFS='|' read -r _ _ label _ <<<"$pool"
    if sort_out "$label" '' "the node pool $NAME of the cluster $CLUSTER" 'and all that runs on it'; then doomed_pool=yes; fi
}

look_at_bucket() {
    local row size content='which is empty'
    doomed_bucket='' doomed_role=''
    if [[ -n $ADOPT_BUCKET ]]; then
        try gcloud storage buckets describe "gs://$BUCKET" '--format=value(name)' >/dev/null || return 0
        kept+=("the bucket gs://$BUCKET, which infra-up did not make")
        if has roles/storage.objectUser "serviceAccount:$ACCOUNT" gcloud storage buckets get-iam-policy "gs://$BUCKET"; then
            doomed_role=yes
            lost+=("the right of $ACCOUNT to the objects of gs://$BUCKET")
        fi
        return
    fi
    row=$(bucket_row)
    [[ -n $row ]] || return 0
    if [[ $row == *'|qfleet' ]]; then
        size=$(ask gcloud storage du "gs://$BUCKET" --summarize | awk '{ printf "%.0f", $1 }')
        if ((size > 0)); then
            content="with $size bytes: $(ask gcloud storage ls "gs://$BUCKET/*" | awk '/\/$/ { printf "%s%s", (n++ ? ", " : ""), $0 }')"
        fi
    fi
    if sort_out "${row#*|}" '' "the bucket gs://$BUCKET" "$content"; then doomed_bucket=yes; fi
}

look_at_registry() {
    local row
    doomed_registry=''
    row=$(registry_row)
    [[ -n $row ]] || return 0
    if sort_out "${row#*|}" '' "the image registry $REGISTRY" 'with its images'; then doomed_registry=yes; fi
}

look_at_accounts() {
    local email row
    doomed_node_role=''
    for email in "$ACCOUNT" "$NODES"; do
        row=$(account_row "$email")
        [[ -n $row ]] || continue
        if sort_out "${row#*|}" '' "the service account $email" ''; then doomed_accounts+=("$email"); fi
    done
    # A role outlives its account, so it goes first.
    if [[ " ${doomed_accounts[*]-} " == *" $NODES "* ]] &&
        has roles/container.defaultNodeServiceAccount "serviceAccount:$NODES" gcloud projects get-iam-policy "$PROJECT"; then
        doomed_node_role=yes
    fi
}

# Ends unless the person says yes.
confirm() {
    local answer
    [[ -z $YES && -z $DRY_RUN ]] || return 0
    [[ -t 0 ]] || refuse 'there is no terminal to ask at, so nothing was destroyed: say make infra-down YES=1 to do it unasked.'
    printf '\nDestroy all this for good? Type yes: '
    read -r answer || answer=''
    [[ $answer == yes ]] || refuse 'nothing was destroyed.'
}

destroy() {
    local email
    [[ -z $doomed_cluster ]] || change gcloud container clusters delete "$CLUSTER" "--location=$location" "--project=$PROJECT" --quiet
    [[ -z $doomed_pool ]] || change gcloud container node-pools delete "$NAME" "--cluster=$CLUSTER" "--location=$location" "--project=$PROJECT" --quiet
    [[ -z $doomed_bucket ]] || change gcloud storage rm "gs://$BUCKET" --recursive
    [[ -z $doomed_role ]] || change gcloud storage buckets remove-iam-policy-binding "gs://$BUCKET" "--member=serviceAccount:$ACCOUNT" --role=roles/storage.objectUser
    [[ -z $doomed_registry ]] || change gcloud artifacts repositories delete "$NAME" "--location=$REGION" "--project=$PROJECT" --quiet
    [[ -z $doomed_node_role ]] || change gcloud projects remove-iam-policy-binding "$PROJECT" "--member=serviceAccount:$NODES" \
        --role=roles/container.defaultNodeServiceAccount --condition=None
    for email in ${doomed_accounts[@]+"${doomed_accounts[@]}"}; do
        change gcloud iam service-accounts delete "$email" "--project=$PROJECT" --quiet
    done
}

parameters "$@"
check_tools gcloud
check_person
look_at_cluster
look_at_bucket
look_at_registry
look_at_accounts
if ((${#lost[@]} == 0)); then
    say "There is nothing in $PROJECT that infra-up made."
else
    say "In $PROJECT this is destroyed:"
    say "$(printf '  - %s\n' "${lost[@]}")"
fi
say 'This stays:'
say "$(printf '  - %s\n' ${kept[@]+"${kept[@]}"} 'the APIs that are enabled')"
((${#lost[@]} > 0)) || exit 0
confirm
say ''
destroy
[[ -n $DRY_RUN ]] || say $'\nDone: it is all gone.'
