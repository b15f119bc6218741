# Reads the parameters of infra-up and infra-down. They are parsed, never run: no value can be more
# than text, and each is held to what it may be before anything is done.
# shellcheck shell=bash disable=SC2034  # names shared with up.sh and down.sh

LC_ALL=C # a-z means 26 letters
PARAMETERS_OF_A_FILE='PROJECT REGION ZONE NAME NAMESPACE MACHINE SPOT MIN_NODES MAX_NODES SYSTEM_MACHINE DISK
    ADOPT_CLUSTER ADOPT_BUCKET PRICES_FOR PRICES_DATE PRICES_SOURCE
    PRICE_CLUSTER PRICE_MACHINE PRICE_SYSTEM_MACHINE PRICE_ADDRESS PRICE_DISK PRICE_STORAGE'

refuse() {
    printf 'qfleet: %s\n' "$1" >&2
    exit 2
}

# assign NAME VALUE PLACE: sets a parameter, if it is one.
assign() {
    local known value=$2
    value=${value#"${value%%[![:space:]]*}"}
    value=${value%"${value##*[![:space:]]}"}
    for known in $PARAMETERS_OF_A_FILE; do
        if [[ $1 == "$known" ]]; then
            printf -v "$1" %s "$value"
            return
        fi
    done
    refuse "$3: there is no parameter $(printf %q "$1"); infra/parameters.env names them all."
}

read_file() {
    local line number=0
    [[ -f $1 && -r $1 ]] || refuse "PARAMETERS=$(printf %q "$1") is no file that can be read: copy infra/parameters.env and edit the copy."
    while IFS= read -r line || [[ -n $line ]]; do
        number=$((number + 1))
        line=${line%$'\r'}
        case $line in
        '' | '#'*) ;;
        *=*) assign "${line%%=*}" "${line#*=}" "$1:$number" ;;
        *) refuse "$1:$number: a line is NAME=value or begins with #, and this is $(printf %q "$line")." ;;
        esac
    done <"$1"
}

# hold NAME PATTERN ALLOWED: refuses a parameter that is not what it may be.
hold() {
    [[ ${!1} =~ ^($2)$ ]] || refuse "$1=$(printf %q "${!1}") must be $3."
}

# answer NAME: turns a yes or no into 'yes' or ''.
answer() {
    case ${!1} in
    1 | yes | true) printf -v "$1" yes ;;
    '' | 0 | no | false) printf -v "$1" '' ;;
    *) refuse "$1=$(printf %q "${!1}") must be yes or no." ;;
    esac
}

# parameters NAME=value...: the example, then the person's file, then the command line.
parameters() {
    local word price file=''
    DRY_RUN='' YES=''
    for word in $PARAMETERS_OF_A_FILE; do printf -v "$word" ''; done
    for word in "$@"; do
        case $word in
        PARAMETERS=*) file=${word#*=} ;;
        esac
    done
    read_file infra/parameters.env
    if [[ -n $file ]]; then read_file "$file"; elif [[ -e infra/own.env ]]; then read_file infra/own.env; fi
    for word in "$@"; do
        case $word in
        PARAMETERS=*) ;;
        DRY_RUN=*) DRY_RUN=${word#*=} ;;
        YES=*) YES=${word#*=} ;;
        *=*) assign "${word%%=*}" "${word#*=}" 'the command line' ;;
        *) refuse "a parameter is given as NAME=value, and this is $(printf %q "$word")." ;;
        esac
    done

    [[ -n $PROJECT ]] || refuse 'PROJECT is not set: write the line PROJECT=my-project into infra/own.env, or say it behind the verb.'
    hold PROJECT '[a-z][a-z0-9-]{4,28}[a-z0-9]' "a project's id: 6 to 30 lower-case letters, digits and dashes, a letter first"
    hold REGION '[a-z]+-[a-z]+[0-9]+' 'a region such as us-central1'
    hold ZONE "$REGION-[a-z]" "a zone of $REGION such as $REGION-a"
    hold NAME '[a-z][a-z0-9-]{4,22}[a-z0-9]' '6 to 24 lower-case letters, digits and dashes, a letter first'
    hold NAMESPACE '[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?' "a namespace's name: lower-case letters, digits and dashes"
    hold MACHINE '[a-z][a-z0-9-]*[a-z0-9]' 'a machine type such as n2d-standard-4'
    hold SYSTEM_MACHINE '[a-z][a-z0-9-]*[a-z0-9]' 'a machine type such as e2-standard-4'
    hold MIN_NODES '0|[1-9][0-9]{0,2}' 'a whole number from 0 to 999'
    hold MAX_NODES '[1-9][0-9]{0,2}' 'a whole number from 1 to 999'
    ((MIN_NODES <= MAX_NODES)) || refuse "MIN_NODES=$MIN_NODES must be at most MAX_NODES, which is $MAX_NODES."
    hold DISK '[1-9][0-9]{1,4}' 'gigabytes, from 10 to 99999'
    hold ADOPT_CLUSTER '([a-z]([a-z0-9-]{0,38}[a-z0-9])?)?' "empty or a cluster's name"
    hold ADOPT_BUCKET '([a-z0-9][a-z0-9._-]{1,220}[a-z0-9])?' "empty or a bucket's name, without gs://"
    for price in PRICE_CLUSTER PRICE_MACHINE PRICE_SYSTEM_MACHINE PRICE_ADDRESS PRICE_DISK PRICE_STORAGE; do
        hold "$price" '[0-9]+(\.[0-9]+)?' 'a number of dollars such as 0.10'
    done
    hold PRICES_DATE '[0-9-]+' 'a date such as 2025-06'
    hold PRICES_FOR '[[:print:]]*' 'plain text'
    hold PRICES_SOURCE '[[:print:]]*' 'plain text'
    answer SPOT
    answer DRY_RUN
    answer YES

    CLUSTER=${ADOPT_CLUSTER:-$NAME}
    BUCKET=${ADOPT_BUCKET:-$PROJECT-$NAME}
    ACCOUNT=$NAME@$PROJECT.iam.gserviceaccount.com      # what training is, to the bucket
    NODES=$NAME-nodes@$PROJECT.iam.gserviceaccount.com  # what the nodes are, to Google Cloud
    REGISTRY=$REGION-docker.pkg.dev/$PROJECT/$NAME
}
