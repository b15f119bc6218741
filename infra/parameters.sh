# Reads the parameters of infra-up and infra-down. Values are parsed, never executed, and all are
# validated before anything else happens.
# shellcheck shell=bash disable=SC2034  # names shared with up.sh and down.sh

LC_ALL=C # a-z means 26 letters
PARAMETERS_OF_A_FILE='PROJECT REGION ZONE NAME NAMESPACE MACHINE SPOT MIN_NODES MAX_NODES SYSTEM_MACHINE DISK
    ADOPT_CLUSTER ADOPT_BUCKET PRICES_FOR PRICES_DATE PRICES_SOURCE
    PRICE_CLUSTER PRICE_MACHINE PRICE_SYSTEM_MACHINE PRICE_ADDRESS PRICE_DISK PRICE_STORAGE'

refuse() {
    printf 'qfleet: %s\n' "$1" >&2
    exit 2
}

# assign NAME VALUE SOURCE: sets a parameter, if it is one.
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
    refuse "$3: there is no parameter $(printf %q "$1"); see infra/parameters.env for all parameters."
}

read_file() {
    local line number=0
    [[ -f $1 && -r $1 ]] || refuse "PARAMETERS=$(printf %q "$1") is not a readable file: copy infra/parameters.env and edit the copy."
    while IFS= read -r line || [[ -n $line ]]; do
        number=$((number + 1))
        line=${line%$'\r'}
        case $line in
        '' | '#'*) ;;
        *=*) assign "${line%%=*}" "${line#*=}" "$1:$number" ;;
        *) refuse "$1:$number: a line must be NAME=value or start with #, but this is $(printf %q "$line")." ;;
        esac
    done <"$1"
}

# require NAME PATTERN ALLOWED: refuses a parameter that does not match.
require() {
    [[ ${!1} =~ ^($2)$ ]] || refuse "$1=$(printf %q "${!1}") must be $3."
}

# boolean NAME: converts yes or no to 'yes' or ''.
boolean() {
    case ${!1} in
    1 | yes | true) printf -v "$1" yes ;;
    '' | 0 | no | false) printf -v "$1" '' ;;
    *) refuse "$1=$(printf %q "${!1}") must be yes or no." ;;
    esac
}

# parameters NAME=value...: reads the defaults, then the user's file, then the command line.
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
        *) refuse "a parameter must be NAME=value, but this is $(printf %q "$word")." ;;
        esac
    done

    [[ -n $PROJECT ]] || refuse 'PROJECT is not set: write the line PROJECT=my-project into infra/own.env, or pass it on the command line.'
    require PROJECT '[a-z][a-z0-9-]{4,28}[a-z0-9]' "a project's id: 6 to 30 lower-case letters, digits and dashes, a letter first"
    require REGION '[a-z]+-[a-z]+[0-9]+' 'a region such as us-central1'
    require ZONE "$REGION-[a-z]" "a zone of $REGION such as $REGION-a"
    require NAME '[a-z][a-z0-9-]{4,22}[a-z0-9]' '6 to 24 lower-case letters, digits and dashes, a letter first'
    require NAMESPACE '[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?' "a namespace's name: lower-case letters, digits and dashes"
    require MACHINE '[a-z][a-z0-9-]*[a-z0-9]' 'a machine type such as n2d-standard-4'
    require SYSTEM_MACHINE '[a-z][a-z0-9-]*[a-z0-9]' 'a machine type such as e2-standard-4'
    require MIN_NODES '0|[1-9][0-9]{0,2}' 'a whole number from 0 to 999'
    require MAX_NODES '[1-9][0-9]{0,2}' 'a whole number from 1 to 999'
    ((MIN_NODES <= MAX_NODES)) || refuse "MIN_NODES=$MIN_NODES must be at most MAX_NODES, which is $MAX_NODES."
    require DISK '[1-9][0-9]{1,4}' 'gigabytes, from 10 to 99999'
    require ADOPT_CLUSTER '([a-z]([a-z0-9-]{0,38}[a-z0-9])?)?' "empty or a cluster's name"
    require ADOPT_BUCKET '([a-z0-9][a-z0-9._-]{1,220}[a-z0-9])?' "empty or a bucket's name, without gs://"
    for price in PRICE_CLUSTER PRICE_MACHINE PRICE_SYSTEM_MACHINE PRICE_ADDRESS PRICE_DISK PRICE_STORAGE; do
        require "$price" '[0-9]+(\.[0-9]+)?' 'a number of dollars such as 0.10'
    done
    require PRICES_DATE '[0-9-]+' 'a date such as 2025-06'
    require PRICES_FOR '[[:print:]]*' 'plain text'
    require PRICES_SOURCE '[[:print:]]*' 'plain text'
    boolean SPOT
    boolean DRY_RUN
    boolean YES

    CLUSTER=${ADOPT_CLUSTER:-$NAME}
    BUCKET=${ADOPT_BUCKET:-$PROJECT-$NAME}
    PREFIX=runs/$NAMESPACE # the only part of the bucket that training may use
    ACCOUNT=$NAME@$PROJECT.iam.gserviceaccount.com      # training acts as this account
    NODES=$NAME-nodes@$PROJECT.iam.gserviceaccount.com  # nodes act as this account
    REGISTRY=$REGION-docker.pkg.dev/$PROJECT/$NAME
}
