# Sourced by ./test and the scripts beside this file, from the root: what they install, and the servers of the other
# engines. The PostgreSQL is a script's own and gone when the script ends; ClickHouse is started by the tests that want it.

as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }

install_packages() { as_root apt-get update -q && as_root env DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends "$@"; }

# The directory of the server's programs, which Debian keeps out of the path.
postgresql() {
    local program
    program=$(command -v initdb || ls -d /usr/lib/postgresql/*/bin/initdb 2>/dev/null | sort -V | tail -n 1) || true
    [ -z "$program" ] || dirname "$(readlink -f "$program")"
}

# PostgreSQL refuses to be run by root.
server_user() { id -un postgres 2>/dev/null || echo nobody; }
as_server() { if [ "$(id -u)" = 0 ]; then runuser -u "$(server_user)" -- "$@"; else "$@"; fi; }

start_postgresql() {
    directory=$(mktemp -d)
    trap stop_postgresql EXIT
    local password
    password=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
    (umask 077 && printf '%s' "$password" >"$directory/password")
    [ "$(id -u)" != 0 ] || chown -R "$(server_user)" "$directory"
    # Texts must sort by code points whatever the server's own order is, hence another one where it can have one. What
    # the machine loses in a power cut is no concern here, hence no waiting for the disk, and little writing.
    local order=""
    ! "$(postgresql)/initdb" --help | grep icu-locale >/dev/null || order="--locale-provider=icu --icu-locale=en"
    (cd "$directory" && as_server "$(postgresql)/initdb" --pgdata=data --username=tests --pwfile=password --auth=scram-sha-256 \
        --encoding=UTF8 --locale=C $order >/dev/null)
    local hasty="-c fsync=off -c full_page_writes=off -c max_wal_size=4GB -c checkpoint_timeout=1h"
    for _ in 1 2 3 4 5; do
        local port=$((20000 + RANDOM % 40000))
        local options="-c listen_addresses=127.0.0.1 -c port=$port -c unix_socket_directories= -c max_connections=500 $hasty"
        if (cd "$directory" && as_server "$(postgresql)/pg_ctl" start --wait --pgdata=data --log=log --options="$options" >/dev/null); then
            database_url="postgres://tests:$password@127.0.0.1:$port/postgres"
            return
        fi
    done
    cat "$directory/log"
    return 1
}

stop_postgresql() {
    (cd "$directory" && as_server "$(postgresql)/pg_ctl" stop --pgdata=data --mode=immediate >/dev/null 2>&1) || true
    rm -rf "$directory"
}

# The other engines: the main API's data in PostgreSQL, history in ClickHouse.
on_servers() { CHANCERY_TEST_DATABASE_URL=$database_url CHANCERY_TEST_HISTORY=clickhouse "$@"; }

# Makes a release build and has the tests use it, where times count.
use_release() {
    cargo build --quiet --release --locked -p chancery
    export CHANCERY_TEST_BINARY=${CARGO_TARGET_DIR:-$PWD/target}/release/chancery
}

# One long test of a target against it.
on_release() {
    use_release
    cargo test --quiet --workspace --locked --test "$1" -- --ignored --nocapture --exact "$2"
}
