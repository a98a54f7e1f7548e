# Chancery on its embedded default. A peer of the harness that `bench/peers` is given: the functions are the harness's.

CHANCERY_SEED=$PERF_WORK/chancery-sqlite
CHANCERY_RUN=$PERF_WORK/chancery-run
export CHANCERY_DATA=$CHANCERY_RUN CHANCERY_LISTEN=$ADDRESS CHANCERY_FALLBACK_BUILD=localhost
export CHANCERY_SECRET_KEY="the benchmark's own key, which protects nothing"

peer_setup() {
    [ -e "$CHANCERY_SEED/done" ] && return
    rm -rf "$CHANCERY_SEED"
    "$CHANCERY_BENCH" seed "$CHANCERY_SEED" "$DATA/users.csv" && touch "$CHANCERY_SEED/done"
}

peer_reset() { rm -rf "$CHANCERY_RUN" && cp -r "$CHANCERY_SEED" "$CHANCERY_RUN"; }

peer_start() { spawn "$PERF_WORK/chancery.log" "$CHANCERY_BINARY" serve api; }

peer_request() {
    admin_api_request "$1" || return
    AUTH="JWT $(cat "$CHANCERY_SEED/token")"
    # Who is sent a link to activate the account is sent a mail, too; the others' users are sent none.
    [ "$1" != create ] || BODY=${BODY/'"timezone"'/'"delay_activation":true,"timezone"'}
}

peer_footprint() { echo "$CHANCERY_BINARY"; }
