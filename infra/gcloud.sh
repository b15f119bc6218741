# How infra-up and infra-down speak to Google Cloud, and how they know what was made.
# shellcheck shell=bash disable=SC2034,SC2153  # names shared with up.sh and down.sh

export CLOUDSDK_CORE_DISABLE_PROMPTS=1 # what is asked is asked here
MADE=managed-by=qfleet # the label, or the description, of all that infra-up makes
OFFLINE=''             # set where nothing at all may be called: the dry run of infra-up
OPERATOR='github.com/kubeflow/training-operator.git/manifests/overlays/standalone?ref=v1.9.4'
exec 3>&1              # what a person reads, also from within $(...)

say() { printf '%s\n' "$*" >&3; }

# Prints a command as one could type it.
typed() {
    local word line=''
    for word in "$@"; do
        case $word in
        *[\'[:cntrl:]]*) word=$(printf %q "$word") ;;
        '' | *[!A-Za-z0-9_.,:/=@%+-]*) word="'$word'" ;;
        esac
        line+=" $word"
    done
    printf '%s' "${line# }"
}

failed() {
    printf 'qfleet: %s failed with the words above; when they are seen to, say the same again: it goes on from here.\n' "$(typed "$@")" >&2
    exit 1
}

# Prints what a command says that changes nothing; in infra-up's dry run, names it alone.
try() {
    if [[ -n $OFFLINE ]]; then say "# looks: $(typed "$@")"; else "$@"; fi
}

ask() { try "$@" || failed "$@"; }

# Runs a command that changes something; in a dry run, prints it alone.
change() {
    say "$(typed "$@")"
    [[ -n $DRY_RUN ]] || "$@" >&3 || failed "$@"
}

# Like change, for a role given to what was just made: Google Cloud takes a while to know it everywhere.
change_soon() {
    local words turn
    say "$(typed "$@")"
    [[ -z $DRY_RUN ]] || return 0
    for turn in 1 2 3 4 5 6; do
        words=$("$@" 2>&1) && return
        [[ $words == *'does not exist'* && $turn != 6 ]] || break
        say "# not known everywhere yet: again in 10 seconds"
        sleep 10
    done
    printf '%s\n' "$words" >&2
    failed "$@"
}

# From lines of fields with | between them, prints those whose first field is NAME.
named() { awk -F'|' -v name="$1" '$1 == name'; }

# A list's fields with | between them: csv, since `value` and tabs lose empty fields.
fields() { printf 'csv[no-heading,separator="|"](%s)' "$1"; }

# cluster_row: name|location|status|label|workload pool|data path|autopilot of CLUSTER in REGION.
cluster_row() {
    ask gcloud container clusters list "--project=$PROJECT" \
        "--format=$(fields 'name,location,status,resourceLabels.managed-by,workloadIdentityConfig.workloadPool,networkConfig.datapathProvider,autopilot.enabled')" |
        named "$CLUSTER" | awk -F'|' -v region="$REGION" '$2 == region || index($2, region "-") == 1'
}

# pool_row LOCATION: name|status|label|machine|spot|min|max of the workers' nodes.
pool_row() {
    ask gcloud container node-pools list "--cluster=$CLUSTER" "--location=$1" "--project=$PROJECT" \
        "--format=$(fields 'name,status,config.resourceLabels.managed-by,config.machineType,config.spot,autoscaling.minNodeCount,autoscaling.maxNodeCount')" |
        named "$NAME"
}

# bucket_row: name|label.
bucket_row() {
    ask gcloud storage buckets list "--project=$PROJECT" "--format=$(fields 'name,labels.managed-by')" | named "$BUCKET"
}

# registry_row: name|label.
registry_row() {
    ask gcloud artifacts repositories list "--location=$REGION" "--project=$PROJECT" \
        "--format=$(fields 'name.basename(),labels.managed-by')" | named "$NAME"
}

# account_row EMAIL: email|description.
account_row() {
    ask gcloud iam service-accounts list "--project=$PROJECT" "--format=$(fields email,description)" | named "$1"
}

# has ROLE MEMBER COMMAND...: whether the policy that COMMAND prints gives it.
has() {
    local policy
    policy=$(ask "${@:3}" '--flatten=bindings[].members' "--format=$(fields bindings.role,bindings.members)") || exit 1
    [[ $'\n'$policy$'\n' == *$'\n'"$1|$2"$'\n'* ]]
}

# Sets $cluster (its row, empty where there is none) and its fields; waits while it is being changed,
# as it is after an interruption.
find_cluster() {
    while :; do
        cluster=$(cluster_row)
        IFS='|' read -r _ location cluster_status cluster_label identity_pool data_path autopilot <<<"$cluster"
        case $cluster_status in
        PROVISIONING | RECONCILING | STOPPING) ;;
        *) return ;;
        esac
        say "# the cluster $CLUSTER is $cluster_status: looking again in 15 seconds"
        sleep 15
    done
}
