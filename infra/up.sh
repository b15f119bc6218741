#!/bin/bash
# Creates the resources that qfleet needs on Google Cloud. Existing ones are not changed.
#
#   infra/up.sh [PARAMETERS=file] [DRY_RUN=1] [NAME=value ...]        see infra/README.md
#
# Each step first checks the current state, so the same command resumes after a failure or Ctrl-C.
# Created resources have the label managed-by=qfleet, by which infra/down.sh finds them.
# shellcheck disable=SC2153  # names shared with parameters.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. infra/parameters.sh
. infra/gcloud.sh
. infra/checks.sh
. infra/cost.sh

APIS='cloudresourcemanager.googleapis.com compute.googleapis.com container.googleapis.com
    iam.googleapis.com artifactregistry.googleapis.com storage.googleapis.com'

step() { say $'\n'"# $1"; }

# foreign RESOURCE REMEDY: refuses an existing resource of the same name without the label.
foreign() { refuse "$1 exists in $PROJECT and was not created by make infra-up: $2."; }

enable_apis() {
    step 'APIs'
    local api enabled off=()
    enabled=$(ask gcloud services list --enabled "--project=$PROJECT" "--format=$(fields config.name)")
    for api in $APIS; do
        [[ $'\n'$enabled$'\n' == *$'\n'$api$'\n'* ]] || off+=("$api")
    done
    ((${#off[@]} == 0)) || change gcloud services enable "${off[@]}" "--project=$PROJECT"
}

# make_account NAME EMAIL DISPLAY_NAME
make_account() {
    local row
    row=$(account_row "$2")
    case $row in
    '') change gcloud iam service-accounts create "$1" "--project=$PROJECT" "--display-name=$3" "--description=$MADE" ;;
    *"|$MADE") ;;
    *) foreign "the service account $2" 'set NAME= to another name' ;;
    esac
}

make_accounts() {
    step 'service accounts of training and of the nodes'
    make_account "$NAME" "$ACCOUNT" 'qfleet training'
    make_account "$NAME-nodes" "$NODES" 'qfleet nodes'
    has roles/container.defaultNodeServiceAccount "serviceAccount:$NODES" gcloud projects get-iam-policy "$PROJECT" ||
        change_soon gcloud projects add-iam-policy-binding "$PROJECT" "--member=serviceAccount:$NODES" \
            --role=roles/container.defaultNodeServiceAccount --condition=None
}

make_registry() {
    step "image registry $REGISTRY, read by the nodes"
    local row
    row=$(registry_row)
    case $row in
    '') change gcloud artifacts repositories create "$NAME" --repository-format=docker "--location=$REGION" "--project=$PROJECT" "--labels=$MADE" ;;
    *'|qfleet') ;;
    *) foreign "the repository $NAME" 'set NAME= to another name' ;;
    esac
    has roles/artifactregistry.reader "serviceAccount:$NODES" \
        gcloud artifacts repositories get-iam-policy "$NAME" "--location=$REGION" "--project=$PROJECT" ||
        change_soon gcloud artifacts repositories add-iam-policy-binding "$NAME" "--location=$REGION" "--project=$PROJECT" \
            "--member=serviceAccount:$NODES" --role=roles/artifactregistry.reader
}

make_bucket() {
    step "bucket gs://$BUCKET, in which training uses $PREFIX/ only"
    [[ -n $ADOPT_BUCKET ]] || make_own_bucket
    has_bucket_role || change_soon gcloud storage buckets add-iam-policy-binding "gs://$BUCKET" "--member=serviceAccount:$ACCOUNT" \
        --role=roles/storage.objectUser "--condition=$(bucket_condition)"
}

make_own_bucket() {
    local row content
    row=$(bucket_row)
    case $row in
    *'|qfleet') return ;;
    '') change gcloud storage buckets create "gs://$BUCKET" "--project=$PROJECT" "--location=$REGION" \
        --uniform-bucket-level-access --public-access-prevention --lifecycle-file=infra/lifecycle.json ;;
    *)  # Labels can't be set at creation: an empty bucket without one is from an interrupted run.
        content=$(ask gcloud storage ls "gs://$BUCKET")
        [[ -z $content && $row == *'|' ]] ||
            foreign "the bucket gs://$BUCKET" "set ADOPT_BUCKET=$BUCKET to use it unchanged, or set NAME= to another name" ;;
    esac
    change gcloud storage buckets update "gs://$BUCKET" "--update-labels=$MADE"
}

make_cluster() {
    step "cluster $CLUSTER with workload identity and network policies"
    [[ -z $cluster && -z $ADOPT_CLUSTER ]] || return 0
    change gcloud container clusters create "$CLUSTER" "--location=$location" "--project=$PROJECT" "--labels=$MADE" \
        --release-channel=regular --enable-ip-alias --enable-dataplane-v2 "--workload-pool=$PROJECT.svc.id.goog" \
        --num-nodes=1 "--machine-type=$SYSTEM_MACHINE" --enable-shielded-nodes "${NODE_FLAGS[@]}"
}

# The workers' nodes: in one zone, also if the cluster is regional.
make_pool() {
    step "$MIN_NODES to $MAX_NODES nodes of $MACHINE${SPOT:+, spot}"
    local least most flags=()
    if [[ $autopilot == True ]]; then
        say "# $CLUSTER is an Autopilot cluster, which adds nodes by itself"
    elif [[ -z $pool ]]; then
        # The taint keeps the cluster's own pods away, so that idle nodes can be removed.
        [[ -z $SPOT ]] || flags=(--spot --location-policy=ANY --node-taints=cloud.google.com/gke-spot=true:NoSchedule)
        change gcloud container node-pools create "$NAME" "--cluster=$CLUSTER" "--location=$location" "--project=$PROJECT" "--labels=$MADE" \
            "--node-locations=$ZONE" "--num-nodes=$MIN_NODES" --enable-autoscaling "--min-nodes=$MIN_NODES" "--max-nodes=$MAX_NODES" \
            "--machine-type=$MACHINE" ${flags[@]+"${flags[@]}"} "${NODE_FLAGS[@]}"
    else
        IFS='|' read -r _ _ _ _ _ least most <<<"$pool"
        [[ ${least:-0} == "$MIN_NODES" && $most == "$MAX_NODES" ]] ||
            change gcloud container clusters update "$CLUSTER" "--location=$location" "--project=$PROJECT" "--node-pool=$NAME" \
                --enable-autoscaling "--min-nodes=$MIN_NODES" "--max-nodes=$MAX_NODES"
    fi
}

bind_identity() {
    step "workload identity: pods with the service account qfleet in the namespace $NAMESPACE act as $ACCOUNT"
    local member="serviceAccount:$PROJECT.svc.id.goog[$NAMESPACE/qfleet]"
    has roles/iam.workloadIdentityUser "$member" gcloud iam service-accounts get-iam-policy "$ACCOUNT" "--project=$PROJECT" ||
        change_soon gcloud iam service-accounts add-iam-policy-binding "$ACCOUNT" "--project=$PROJECT" "--member=$member" --role=roles/iam.workloadIdentityUser
}

install_operator() {
    step 'kubectl and the Kubeflow training operator'
    local kubectl=(kubectl "--context=gke_${PROJECT}_${location}_$CLUSTER") found
    # Run each time: it only changes the kubeconfig of this machine.
    change gcloud container clusters get-credentials "$CLUSTER" "--location=$location" "--project=$PROJECT"
    found=$(ask "${kubectl[@]}" get deployments --all-namespaces --field-selector=metadata.name=training-operator \
        '--output=jsonpath={.items[*].metadata.name}/{.items[*].metadata.labels.managed-by}')
    # Without the label, the operator of an adopted cluster is left as it is; in a cluster of
    # infra-up, its installation was interrupted.
    if [[ ${found:-/} == / || (-z $ADOPT_CLUSTER && $found != */qfleet) ]]; then
        change "${kubectl[@]}" apply --server-side "--kustomize=$OPERATOR"
        change "${kubectl[@]}" label --overwrite --namespace=kubeflow deployment/training-operator "$MADE"
    fi
    found=$(ask "${kubectl[@]}" get namespaces "--field-selector=metadata.name=$NAMESPACE" --output=name)
    [[ -n $found || $NAMESPACE == default ]] || change "${kubectl[@]}" create namespace "$NAMESPACE"
    [[ -n $ADOPT_CLUSTER ]] || ask "${kubectl[@]}" rollout status --namespace=kubeflow deployment/training-operator --timeout=5m >&3
}

# Checks the existing resources before anything is created.
check_existing() {
    step 'existing resources'
    pool=''
    find_cluster
    location=${location:-$ZONE}
    if [[ -n $ADOPT_CLUSTER ]]; then
        check_adopted_cluster
    elif [[ -z $cluster ]]; then
        check_network
    elif [[ $cluster_label != qfleet ]]; then
        foreign "the cluster $CLUSTER" "set ADOPT_CLUSTER=$CLUSTER to use it unchanged, or set NAME= to another name"
    fi
    [[ $cluster_status != ERROR ]] ||
        lack "the cluster $CLUSTER could not be created: gcloud container clusters describe $CLUSTER --location=$location --project=$PROJECT shows the cause; delete it with gcloud container clusters delete $CLUSTER --location=$location --project=$PROJECT and run make infra-up again"
    [[ -z $ADOPT_BUCKET ]] || try gcloud storage buckets describe "gs://$BUCKET" '--format=value(name)' >/dev/null ||
        lack "the bucket gs://$BUCKET that ADOPT_BUCKET names cannot be accessed: gcloud storage buckets list --project=$PROJECT lists those of the project."
    [[ -z $cluster ]] || pool=$(pool_row "$location")
    if [[ -n $pool ]]; then check_pool; elif [[ $autopilot != True ]]; then check_quota; fi
    refuse_lacks
}

check_adopted_cluster() {
    [[ -z $OFFLINE ]] || return 0
    [[ -n $cluster ]] ||
        refuse "there is no cluster $CLUSTER in $REGION, which ADOPT_CLUSTER names: gcloud container clusters list --project=$PROJECT"
    [[ -n $identity_pool ]] ||
        lack "the cluster $CLUSTER has no workload identity: gcloud container clusters update $CLUSTER --location=$location --project=$PROJECT --workload-pool=$PROJECT.svc.id.goog"
    [[ $data_path == ADVANCED_DATAPATH ]] ||
        say "# the cluster $CLUSTER has no Dataplane V2: it may not enforce network policies, which protect the workers' ports"
}

check_pool() {
    local label machine spot
    IFS='|' read -r _ _ label machine spot _ _ <<<"$pool"
    [[ $label == qfleet ]] || foreign "the node pool $NAME of the cluster $CLUSTER" 'set NAME= to another name'
    [[ $spot == True ]] || spot=''
    [[ $machine == "$MACHINE" && ${spot:+spot} == "${SPOT:+spot}" ]] ||
        lack "the node pool $NAME has ${spot:+spot }nodes of $machine, which cannot be changed: gcloud container node-pools delete $NAME --cluster=$CLUSTER --location=$location --project=$PROJECT, then run make infra-up again."
}

# Prints the next commands, with the names of the created resources.
next() {
    local namespace=''
    [[ $NAMESPACE == default ]] || namespace=" NAMESPACE=$NAMESPACE"
    say "
# next
gcloud auth configure-docker $REGION-docker.pkg.dev
make images
make push IMAGE=$REGISTRY/qfleet
make manifests OVERLAY=gke STORAGE=gs://$BUCKET/$PREFIX IMAGE=$REGISTRY/qfleet SERVICE_ACCOUNT=$ACCOUNT
make training TARGET=k8s OVERLAY=gke$namespace"
}

parameters "$@"
OFFLINE=$DRY_RUN
NODE_FLAGS=(--disk-type=pd-balanced "--disk-size=$DISK" "--service-account=$NODES" --workload-metadata=GKE_METADATA
    --shielded-secure-boot --shielded-integrity-monitoring --metadata=disable-legacy-endpoints=true)
if [[ -n $OFFLINE ]]; then
    say '# Dry run: all commands for an empty project. None is run.'
else
    check_tools gcloud kubectl gke-gcloud-auth-plugin git curl
fi
estimate
step 'account and permissions'
check_account
check_project
check_permissions
refuse_lacks
enable_apis
check_existing
make_accounts
make_registry
make_bucket
make_cluster
make_pool
bind_identity
install_operator
next
