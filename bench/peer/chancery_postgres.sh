# Chancery on PostgreSQL, the same one as the other peers'.

. "$BENCH/lib/postgres.sh"
. "$BENCH/peers/chancery_sqlite.sh"
CHANCERY_SEED=$PERF_WORK/chancery-postgres
export CHANCERY_DATABASE_URL=postgres://bench@127.0.0.1:$PERF_PGPORT/chancery_run

peer_setup() {
    [ -e "$CHANCERY_SEED/done" ] && return
    rm -rf "$CHANCERY_SEED"
    pg_start || return
    pg -d postgres -c 'DROP DATABASE IF EXISTS chancery_seed' -c 'CREATE DATABASE chancery_seed' &&
        "$CHANCERY_BENCH" seed "$CHANCERY_SEED" "$DATA/users.csv" "${CHANCERY_DATABASE_URL/_run/_seed}" &&
        pg -d chancery_seed -c 'VACUUM ANALYZE' && touch "$CHANCERY_SEED/done"
    local result=$?
    pg_stop
    return $result
}

peer_reset() {
    rm -rf "$CHANCERY_RUN"
    cp -r "$CHANCERY_SEED" "$CHANCERY_RUN"
    pg_start && pg_fresh chancery_run chancery_seed
}

peer_after() { pg_stop; }

peer_extra_pids() { pg_pid; }
