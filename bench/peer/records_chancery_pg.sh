# Chancery's records on PostgreSQL, the same one as the other peers'.

. "$BENCH/lib/postgres.sh"
. "$BENCH/peers/records_chancery.sh"
CHANCERY_SEED=$PERF_WORK/records-chancery-pg-$RECORDS
export CHANCERY_DATABASE_URL=postgres://bench@127.0.0.1:$PERF_PGPORT/records_chancery_run
CHANCERY_DATABASE=records_chancery_$RECORDS
PG_SETTINGS='-c jit=off' # as the other peers on PostgreSQL

peer_setup() {
    records_data || return
    [ -e "$CHANCERY_SEED/done" ] && return
    rm -rf "$CHANCERY_SEED"
    pg_start || return
    pg -d postgres -c "DROP DATABASE IF EXISTS $CHANCERY_DATABASE" -c "CREATE DATABASE $CHANCERY_DATABASE" &&
        "$CHANCERY_BENCH" records "$CHANCERY_SEED" "$RDATA" "${CHANCERY_DATABASE_URL/records_chancery_run/$CHANCERY_DATABASE}" &&
        pg -d "$CHANCERY_DATABASE" -c 'VACUUM ANALYZE' && touch "$CHANCERY_SEED/done"
    local result=$?
    pg_stop
    return $result
}

peer_reset() {
    rm -rf "$CHANCERY_RUN"
    cp -r "$CHANCERY_SEED" "$CHANCERY_RUN"
    pg_start && pg_fresh records_chancery_run "$CHANCERY_DATABASE"
}

peer_after() { pg_stop; }

peer_extra_pids() { pg_pid; }
