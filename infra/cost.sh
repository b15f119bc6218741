# The hourly cost, from the prices in the parameters.
# shellcheck shell=bash

estimate() {
    local own=1 kind=standard
    [[ -z $ADOPT_CLUSTER ]] || own=0
    [[ -z $SPOT ]] || kind=spot
    say "# dollars per hour, at prices of $PRICES_DATE ($PRICES_SOURCE)"
    [[ $PRICES_FOR == "$REGION $MACHINE $kind $SYSTEM_MACHINE" ]] ||
        say "# WARNING: these are the prices of $PRICES_FOR, not of $REGION $MACHINE $kind $SYSTEM_MACHINE: set PRICE_... and PRICES_FOR"
    awk -v own="$own" -v least="$MIN_NODES" -v most="$MAX_NODES" -v disk="$DISK" -v kind="$kind" \
        -v machine="$MACHINE" -v system_machine="$SYSTEM_MACHINE" \
        -v cluster_price="$PRICE_CLUSTER" -v machine_price="$PRICE_MACHINE" -v system_price="$PRICE_SYSTEM_MACHINE" \
        -v address_price="$PRICE_ADDRESS" -v disk_price="$PRICE_DISK" -v storage_price="$PRICE_STORAGE" '
        function line(what, low, high) {
            printf "#   %-46s %9.4f %9.4f\n", what, low, high
            low_sum += low; high_sum += high
        }
        BEGIN {
            printf "#   %-46s %9s %9s\n", "", "idle", "at most"
            if (own) {
                line("cluster", cluster_price, cluster_price)
                line("1 " system_machine, system_price, system_price)
            }
            line(least " to " most " " machine ", " kind, least * machine_price, most * machine_price)
            each = disk * disk_price / 730 + address_price # a month has 730 hours
            line("their disks of " disk " GB and addresses", (least + own) * each, (most + own) * each)
            printf "#   %-46s %9.4f %9.4f\n", "together", low_sum, high_sum
            printf "# and %.3f dollars per month and GB in the bucket, also without nodes\n", storage_price
        }' >&3
    [[ $own == 1 ]] || say "# the existing cluster $CLUSTER itself is not counted"
}
