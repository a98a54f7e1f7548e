# Sourced by the scripts beside it: where things lie, a private PostgreSQL, starting and stopping servers.
#   WORK     everything that is built or written [default: target/bench]
#   PORT     of the server that is measured [8790]; PGPORT of PostgreSQL [8791]
#   PGBIN    PostgreSQL's programs [default: what pg_config says]

set -euo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
TARGET=${CARGO_TARGET_DIR:-$ROOT/target}
WORK=${WORK:-$TARGET/bench}
PORT=${PORT:-8790}
ADDRESS=127.0.0.1:$PORT
export PGHOST=127.0.0.1 PGPORT=${PGPORT:-8791} PGUSER=bench
PGBIN=${PGBIN:-$(pg_config --bindir)}
PGDIR=$WORK/postgres
BENCH=$TARGET/release/bench
SECRET="the benchmark's own key, which protects nothing"
mkdir -p "$WORK"

build() {
    cargo build -q --release --target-dir "$TARGET" --manifest-path "$ROOT/Cargo.toml" -p chancery
    cargo build -q --release --target-dir "$TARGET" --manifest-path "$ROOT/bench/Cargo.toml"
}

# as_pg COMMAND…  PostgreSQL refuses to run as root
as_pg() { if [ "$(id -u)" = 0 ]; then runuser -u "${PGSYSTEMUSER:-postgres}" -- "$@"; else "$@"; fi; }

pg() { psql -X -q -v ON_ERROR_STOP=1 -d postgres "$@"; }

pg_start() {
    mkdir -p "$PGDIR"
    [ "$(id -u)" != 0 ] || chown "${PGSYSTEMUSER:-postgres}" "$PGDIR"
    [ -d "$PGDIR/data" ] || as_pg "$PGBIN/initdb" -D "$PGDIR/data" -U bench -A trust -E UTF8 --locale=C.UTF-8 >/dev/null
    as_pg "$PGBIN/pg_ctl" -D "$PGDIR/data" -l "$PGDIR/log" -w -s \
        -o "-p $PGPORT -c listen_addresses=127.0.0.1 -c unix_socket_directories=" start
}

pg_stop() { as_pg "$PGBIN/pg_ctl" -D "$PGDIR/data" -m fast -w -s stop; }

pg_pid() { head -1 "$PGDIR/data/postmaster.pid"; }

# pg_copy FROM TO  makes database TO a copy of FROM
pg_copy() { pg -c "DROP DATABASE IF EXISTS $2" -c "CREATE DATABASE $2 TEMPLATE $1" -c CHECKPOINT 2>/dev/null; }

pg_url() { echo "postgres://bench@127.0.0.1:$PGPORT/$1"; }

# seed DATABASE USERS  prints the directory of a build with so many users, made if need be
seed() {
    local directory=$WORK/seed/$1-$2
    if [ ! -e "$directory/done" ]; then
        rm -rf "$directory"
        if [ "$1" = postgres ]; then
            pg -c "DROP DATABASE IF EXISTS seed_$2" -c "CREATE DATABASE seed_$2"
            "$BENCH" seed "$directory" "$2" "$(pg_url "seed_$2")"
            psql -X -q -d "seed_$2" -c "VACUUM ANALYZE"
        else
            "$BENCH" seed "$directory" "$2"
        fi
        touch "$directory/done"
    fi
    echo "$directory"
}

# fresh DATABASE USERS  puts a copy of that build in place: the directory `run` or the database `run`
fresh() {
    rm -rf "$WORK/run"
    cp -r "$(seed "$1" "$2")" "$WORK/run"
    [ "$1" != postgres ] || pg_copy "seed_$2" run
}

SERVER=
# serve SERVER DATABASE  starts `chancery`, `floor` or `old`, the binary OLD, on what `fresh` put in place
serve() {
    case $1-$2 in
        floor-sqlite) FLOOR_DATABASE=$WORK/run/builds/build_1.db ;;
        floor-postgres) FLOOR_DATABASE="$(pg_url run)?options=-csearch_path%3Dbuild_1" ;;
        chancery-postgres | old-postgres) export CHANCERY_DATABASE_URL=$(pg_url run) ;;
        *) unset CHANCERY_DATABASE_URL ;;
    esac
    if [ "$1" = floor ]; then
        FLOOR_ADDRESS=$ADDRESS FLOOR_KEY=$WORK/run/key FLOOR_DATABASE=$FLOOR_DATABASE "$TARGET/release/floor" >"$WORK/log" 2>&1 &
    else
        local binary=$TARGET/release/chancery
        [ "$1" != old ] || binary=$OLD
        CHANCERY_SECRET_KEY=$SECRET CHANCERY_DATA=$WORK/run CHANCERY_LISTEN=$ADDRESS "$binary" serve api >"$WORK/log" 2>&1 &
    fi
    SERVER=$!
    STARTED=$("$BENCH" first "$ADDRESS" "$WORK/run" "/api/users/1/") || { tail -3 "$WORK/log" >&2; return 1; }
}

stop() {
    [ -z "$SERVER" ] || { kill "$SERVER"; wait "$SERVER" || true; }
    SERVER=
}
