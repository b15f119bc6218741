#!/bin/bash
# Deletes the resources that infra-up created on Google Cloud, and no others. It lists them first and
# requests a confirmation.
#
#   infra/down.sh [PARAMETERS=file] [DRY_RUN=1] [YES=1] [NAME=value ...]        see infra/README.md
#
# Resources of infra-up have the label managed-by=qfleet. After a failure or Ctrl-C, run it again.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. infra/parameters.sh
. infra/gcloud.sh
. infra/checks.sh

lost=() kept=()     # descriptions of existing resources
doomed_accounts=()  # those to delete

# sort_out LABEL ADOPTED RESOURCE LOSS: succeeds if RESOURCE is to be deleted.
sort_out() {
    if [[ $1 == "${MADE#*=}" || $1 == "$MADE" ]] && [[ -z $2 ]]; then
        lost+=("$3${4:+, $4}")
        return 0
    fi
    kept+=("$3, which infra-up did not create")
    return 1
}

look_at_cluster() {
    local pool label
    find_cluster
    doomed_cluster='' doomed_pool=''
    [[ -n $cluster ]] || return 0
    if sort_out "$cluster_label" "$ADOPT_CLUSTER" "the cluster $CLUSTER in $location" 'its nodes and all pods on them'; then
        doomed_cluster=yes
        return
    fi
    kept+=("the training operator in $CLUSTER, which others may use: kubectl delete --kustomize='$OPERATOR' deletes it and all jobs")
    [[ $autopilot != True ]] || return 0
    pool=$(pool_row "$location")
    [[ -n $pool ]] || return 0
    IFS='|' read -r _ _ label _ <<<"$pool"
    if sort_out "$label" '' "the node pool $NAME of the cluster $CLUSTER" 'and all pods on it'; then doomed_pool=yes; fi
}

look_at_bucket() {
    local row size content='which is empty'
    doomed_bucket='' doomed_role=''
    if [[ -n $ADOPT_BUCKET ]]; then
        try gcloud storage buckets describe "gs://$BUCKET" '--format=value(name)' >/dev/null || return 0
        kept+=("the bucket gs://$BUCKET, which infra-up did not create")
        if has_bucket_role; then
            doomed_role=yes
            lost+=("the access of $ACCOUNT to the objects of gs://$BUCKET")
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
    # Role bindings survive their account, so they are deleted first.
    if [[ " ${doomed_accounts[*]-} " == *" $NODES "* ]] &&
        has roles/container.defaultNodeServiceAccount "serviceAccount:$NODES" gcloud projects get-iam-policy "$PROJECT"; then
        doomed_node_role=yes
    fi
}

# Ends unless the user types yes.
confirm() {
    local answer
    [[ -z $YES && -z $DRY_RUN ]] || return 0
    [[ -t 0 ]] || refuse 'nothing was deleted, since there is no terminal for the confirmation: run make infra-down YES=1.'
    printf '\nDelete all of this permanently? Type yes: '
    read -r answer || answer=''
    [[ $answer == yes ]] || refuse 'nothing was deleted.'
}

destroy() {
    local email
    [[ -z $doomed_cluster ]] || change gcloud container clusters delete "$CLUSTER" "--location=$location" "--project=$PROJECT" --quiet
    [[ -z $doomed_pool ]] || change gcloud container node-pools delete "$NAME" "--cluster=$CLUSTER" "--location=$location" "--project=$PROJECT" --quiet
    [[ -z $doomed_bucket ]] || change gcloud storage rm "gs://$BUCKET" --recursive
    [[ -z $doomed_role ]] || change gcloud storage buckets remove-iam-policy-binding "gs://$BUCKET" "--member=serviceAccount:$ACCOUNT" --role=roles/storage.objectUser \
        "--condition=$(bucket_condition)"
    [[ -z $doomed_registry ]] || change gcloud artifacts repositories delete "$NAME" "--location=$REGION" "--project=$PROJECT" --quiet
    [[ -z $doomed_node_role ]] || change gcloud projects remove-iam-policy-binding "$PROJECT" "--member=serviceAccount:$NODES" \
        --role=roles/container.defaultNodeServiceAccount --condition=None
    for email in ${doomed_accounts[@]+"${doomed_accounts[@]}"}; do
        change gcloud iam service-accounts delete "$email" "--project=$PROJECT" --quiet
    done
}

parameters "$@"
check_tools gcloud
check_account
look_at_cluster
look_at_bucket
look_at_registry
look_at_accounts
if ((${#lost[@]} == 0)); then
    say "$PROJECT has no resources of infra-up."
else
    say "Deleting in $PROJECT:"
    say "$(printf '  - %s\n' "${lost[@]}")"
fi
say 'Keeping:'
say "$(printf '  - %s\n' ${kept[@]+"${kept[@]}"} 'the enabled APIs')"
((${#lost[@]} > 0)) || exit 0
confirm
say ''
destroy
[[ -n $DRY_RUN ]] || say $'\nDone: everything was deleted.'
