# Requirements of infra-up, checked before it creates anything. Each missing one is reported in one
# sentence with its remedy.
# shellcheck shell=bash disable=SC2153  # names shared with up.sh and down.sh

lacks=()
lack() { lacks+=("$1"); }

# Ends with all missing requirements, if there are any.
refuse_lacks() {
    ((${#lacks[@]} == 0)) || {
        printf 'qfleet: %s\n' "${lacks[@]}" >&2
        exit 2
    }
}

check_tools() {
    local tool
    for tool in "$@"; do
        command -v "$tool" >/dev/null && continue
        case $tool in
        gcloud) lack 'gcloud is not installed: see https://cloud.google.com/sdk/docs/install.' ;;
        kubectl | gke-gcloud-auth-plugin) lack "$tool is not installed: gcloud components install $tool" ;;
        *) lack "$tool is not installed: install it with this machine's package manager." ;;
        esac
    done
    refuse_lacks
}

# Sets $person to the account that is signed in.
check_account() {
    person=$(ask gcloud auth list --filter=status:ACTIVE '--format=value(account)')
    [[ -n $person || -n $OFFLINE ]] || refuse 'gcloud is not signed in: gcloud auth login'
}

check_project() {
    local billing
    try gcloud projects describe "$PROJECT" '--format=value(projectId)' >/dev/null ||
        refuse "$person cannot access the project $PROJECT, or it does not exist: create it (gcloud projects create $PROJECT), or set PROJECT to one of gcloud projects list."
    # A user without access to the billing account may still use it, so only a clear "no" counts.
    billing=$(try gcloud billing projects describe "$PROJECT" '--format=value(billingEnabled)') || say "# could not check whether billing is enabled for $PROJECT"
    [[ $billing != False ]] ||
        lack "the project $PROJECT has no billing account: gcloud billing projects link $PROJECT --billing-account=ID, where ID is one of gcloud billing accounts list."
}

# Prints the required permissions, each with a role that contains it.
needed_permissions() {
    printf '%s\n' \
        'serviceusage.services.enable roles/serviceusage.serviceUsageAdmin' \
        'compute.regions.get roles/compute.viewer' \
        'iam.serviceAccounts.create roles/iam.serviceAccountAdmin' \
        'iam.serviceAccounts.setIamPolicy roles/iam.serviceAccountAdmin' \
        'iam.serviceAccounts.actAs roles/iam.serviceAccountUser' \
        'resourcemanager.projects.setIamPolicy roles/resourcemanager.projectIamAdmin' \
        'artifactregistry.repositories.create roles/artifactregistry.admin' \
        'container.clusters.update roles/container.admin'
    [[ -n $ADOPT_CLUSTER ]] || echo 'container.clusters.create roles/container.admin'
    [[ -n $ADOPT_BUCKET ]] || printf '%s\n' 'storage.buckets.create roles/storage.admin' 'storage.buckets.setIamPolicy roles/storage.admin'
}

# Requests from Google Cloud which permissions the user has; gcloud has no such command.
check_permissions() {
    local names held token permission role wanted='' member=user:$person url
    url=https://cloudresourcemanager.googleapis.com/v1/projects/$PROJECT:testIamPermissions
    if [[ -n $OFFLINE ]]; then
        say "# looks: curl $url, for $(needed_permissions | wc -l | tr -d ' ') permissions"
        return
    fi
    names=$(needed_permissions | awk '{ printf "%s\"%s\"", (NR > 1 ? "," : ""), $1 }')
    token=$(gcloud auth print-access-token) || failed gcloud auth print-access-token
    # The token is passed in a pipe: every user of this machine can read arguments.
    held=$(printf 'header = "Authorization: Bearer %s"\n' "$token" |
        curl --silent --show-error --fail --max-time 60 --config - \
            --header 'Content-Type: application/json' --data "{\"permissions\":[$names]}" "$url") || {
        say "# could not check the permissions of $person; steps that are not permitted will fail"
        return
    }
    [[ $person != *.gserviceaccount.com ]] || member=serviceAccount:$person
    while read -r permission role; do
        [[ $held == *"\"$permission\""* || $wanted == *" $role "* ]] && continue
        wanted+=" $role "
        lack "$person lacks $permission in $PROJECT; an owner can grant it: gcloud projects add-iam-policy-binding $PROJECT --member=$member --role=$role"
    done < <(needed_permissions)
}

# check_network: nodes are put into the project's default network.
check_network() {
    local networks
    networks=$(ask gcloud compute networks list "--project=$PROJECT" "--format=$(fields name)")
    [[ -n $OFFLINE || -n $(named default <<<"$networks") ]] ||
        lack "the project $PROJECT has no network called default: gcloud compute networks create default --subnet-mode=auto --project=$PROJECT"
}

# room QUOTAS METRIC: prints the unused amount; nothing if there is no such quota.
room() { named "$2" <<<"$1" | awk -F'|' '{ printf "%d", $2 - $3 }'; }

# cpu_metric QUOTAS MACHINE KIND: prints the quota that the machine's processors count against.
cpu_metric() {
    local family metric preemptible
    family=$(printf %s "${2%%-*}" | tr '[:lower:]' '[:upper:]')
    metric=${family}_CPUS
    [[ -n $(room "$1" "$metric") ]] || metric=CPUS
    # Spot machines have a separate quota only if one was granted.
    preemptible=$(named PREEMPTIBLE_CPUS <<<"$1" | awk -F'|' '{ printf "%d", $2 }')
    [[ $3 != spot || ${preemptible:-0} == 0 ]] || metric=PREEMPTIBLE_CPUS
    printf %s "$metric"
}

# check_quota: checks that the quotas suffice for all nodes at once.
check_quota() {
    local quotas everywhere machines worker system metric system_metric extra=1
    quotas=$(ask gcloud compute regions describe "$REGION" "--project=$PROJECT" '--flatten=quotas[]' "--format=$(fields quotas.metric,quotas.limit,quotas.usage)")
    everywhere=$(ask gcloud compute project-info describe "--project=$PROJECT" '--flatten=quotas[]' "--format=$(fields quotas.metric,quotas.limit,quotas.usage)")
    machines=$(ask gcloud compute machine-types list "--zones=$ZONE" "--project=$PROJECT" "--format=$(fields name,guestCpus)")
    [[ -z $OFFLINE ]] || return 0
    worker=$(named "$MACHINE" <<<"$machines" | cut -d'|' -f2)
    system=$(named "$SYSTEM_MACHINE" <<<"$machines" | cut -d'|' -f2)
    [[ -n $worker ]] || lack "there is no machine type $MACHINE in $ZONE: MACHINE= one of gcloud compute machine-types list --zones=$ZONE --project=$PROJECT."
    [[ -n $system ]] || lack "there is no machine type $SYSTEM_MACHINE in $ZONE: SYSTEM_MACHINE= one of gcloud compute machine-types list --zones=$ZONE --project=$PROJECT."
    refuse_lacks
    # An existing cluster has its system node already.
    [[ -z $cluster ]] || system=0 extra=0
    metric=$(cpu_metric "$quotas" "$MACHINE" "${SPOT:+spot}")
    system_metric=$(cpu_metric "$quotas" "$SYSTEM_MACHINE" standard)
    if [[ $metric == "$system_metric" ]]; then
        check_room "$quotas" "$metric" "$worker" "$system"
    else
        check_room "$quotas" "$metric" "$worker" 0
        check_room "$quotas" "$system_metric" 0 "$system"
    fi
    check_room "$everywhere" CPUS_ALL_REGIONS "$worker" "$system"
    check_room "$quotas" IN_USE_ADDRESSES 1 "$extra"
    check_room "$quotas" SSD_TOTAL_GB "$DISK" "$((DISK * extra))"
    check_room "$quotas" INSTANCES 1 "$extra"
}

# check_room QUOTAS METRIC EACH OTHER: OTHER and EACH for every node must fit.
check_room() {
    local left need fitting
    left=$(room "$1" "$2")
    need=$(($3 * MAX_NODES + $4))
    [[ -n $left ]] && ((left < need)) || return 0
    fitting=$(($3 ? (left - $4) / $3 : 0))
    if ((fitting > 0)); then fitting="run make infra-up MAX_NODES=$fitting, or "; else fitting=''; fi
    lack "$MAX_NODES nodes of $MACHINE and the other resources need $need of the quota $2, but only $left are left: ${fitting}request more at https://console.cloud.google.com/iam-admin/quotas?project=$PROJECT."
}
