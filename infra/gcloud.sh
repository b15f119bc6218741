# Calls of gcloud by infra-up and infra-down, and queries for the resources that they manage.
# shellcheck shell=bash disable=SC2034,SC2153  # names shared with up.sh and down.sh

export CLOUDSDK_CORE_DISABLE_PROMPTS=1 # the scripts have their own prompts
MADE=managed-by=qfleet # the label or description of all resources of infra-up
OFFLINE=''             # set in the dry run of infra-up: nothing is called
OPERATOR='github.com/kubeflow/training-operator.git/manifests/overlays/standalone?ref=v1.9.4'
exec 3>&1              # output for the user, also from within $(...)

say() { printf '%s\n' "$*" >&3; }

# Prints a command in a form that can be typed.
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
    printf 'qfleet: %s failed, see above; resolve the problem and retry the command: it resumes here.\n' "$(typed "$@")" >&2
    exit 1
}

# Runs a command that changes nothing; in infra-up's dry run, only prints it.
try() {
    if [[ -n $OFFLINE ]]; then say "# looks: $(typed "$@")"; else "$@"; fi
}

ask() { try "$@" || failed "$@"; }

# Runs a command that changes something; in a dry run, only prints it.
change() {
    say "$(typed "$@")"
    [[ -n $DRY_RUN ]] || "$@" >&3 || failed "$@"
}

# Like change, for roles of new accounts: it takes a while until all of Google Cloud knows an account.
change_soon() {
    local output attempt
    say "$(typed "$@")"
    [[ -z $DRY_RUN ]] || return 0
    for attempt in 1 2 3 4 5 6; do
        output=$("$@" 2>&1) && return
        [[ $output == *'does not exist'* && $attempt != 6 ]] || break
        say "# the account is not available yet: retrying in 10 seconds"
        sleep 10
    done
    printf '%s\n' "$output" >&2
    failed "$@"
}

# named NAME: of lines of fields separated by |, prints those whose first field is NAME.
named() { awk -F'|' -v name="$1" '$1 == name'; }

# Prints a --format of fields separated by |. It is csv, since `value` and tabs lose empty fields.
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

# has ROLE MEMBER COMMAND...: succeeds if the policy that COMMAND prints grants the role.
has() {
    local policy
    policy=$(ask "${@:3}" '--flatten=bindings[].members' "--format=$(fields bindings.role,bindings.members)") || exit 1
    [[ $'\n'$policy$'\n' == *$'\n'"$1|$2"$'\n'* ]]
}

# Prints the condition of the role in the bucket: objects below PREFIX, and lists of them.
bucket_condition() {
    printf '^;^title=%s;expression=%s' "$(condition_title)" \
        "resource.name.startsWith(\"projects/_/buckets/$BUCKET/objects/$PREFIX/\") || api.getAttribute(\"storage.googleapis.com/objectListPrefix\", \"\").startsWith(\"$PREFIX/\")"
}

condition_title() { printf 'qfleet-%s' "$NAMESPACE"; }

# Succeeds if ACCOUNT has its role in the bucket, with that condition.
has_bucket_role() {
    local policy
    policy=$(ask gcloud storage buckets get-iam-policy "gs://$BUCKET" '--flatten=bindings[].members' \
        "--format=$(fields bindings.role,bindings.members,bindings.condition.title)") || exit 1
    [[ $'\n'$policy$'\n' == *$'\n'"roles/storage.objectUser|serviceAccount:$ACCOUNT|$(condition_title)"$'\n'* ]]
}

# Sets $cluster (its row, empty if there is none) and its fields. Waits while the cluster is being
# changed, for example after an interruption.
find_cluster() {
    while :; do
        cluster=$(cluster_row)
        IFS='|' read -r _ location cluster_status cluster_label identity_pool data_path autopilot <<<"$cluster"
        case $cluster_status in
        PROVISIONING | RECONCILING | STOPPING) ;;
        *) return ;;
        esac
        say "# the cluster $CLUSTER is $cluster_status: checking again in 15 seconds"
        sleep 15
    done
}
