# Chancery's records on its embedded default. A peer of the harness that `bench/records` is given.

. "$BENCH/lib/records.sh"
CHANCERY_SEED=$PERF_WORK/records-chancery-$RECORDS
CHANCERY_RUN=$PERF_WORK/records-chancery-run
export CHANCERY_DATA=$CHANCERY_RUN CHANCERY_LISTEN=$ADDRESS CHANCERY_FALLBACK_BUILD=localhost
# Nothing delivers the events, so there must be room for those of the whole run.
export CHANCERY_OUTBOX_BYTES=${CHANCERY_OUTBOX_BYTES:-8000000000}
export CHANCERY_SECRET_KEY="the benchmark's own key, which protects nothing"

peer_setup() {
    records_data || return
    [ -e "$CHANCERY_SEED/done" ] && return
    rm -rf "$CHANCERY_SEED"
    "$CHANCERY_BENCH" records "$CHANCERY_SEED" "$RDATA" && touch "$CHANCERY_SEED/done"
}

peer_reset() { rm -rf "$CHANCERY_RUN" && cp -r "$CHANCERY_SEED" "$CHANCERY_RUN"; }

peer_start() { spawn "$CHANCERY_SEED/log" "$CHANCERY_BINARY" serve api; }

# Besides the harness's operations: `anew_OPERATION` has an address of its own each time, so that no answer is kept.
peer_request() {
    local operation=${1#anew_}
    local percent=${operation##*_}
    records_api_request "$operation" || return
    AUTH="JWT $(cat "$CHANCERY_SEED/token-${RECORD_CALLERS[$percent]:-2}")"
    case $operation in
        # A relation stands before a dot.
        related_*) URLPATH=${URLPATH/supplier__name/supplier.name} ;;
        create) BODY=$(suppliers_renumbered "$(records_body chancery one)") ;;
        batch) BODY=$(suppliers_renumbered "$(records_body chancery batch)") ;;
    esac
    [ "$operation" = "$1" ] || case $URLPATH in
        *\?*) URLPATH+="&anew={uniq}" ;;
        *) URLPATH+="?anew={uniq}" ;;
    esac
}

# suppliers_renumbered @FILE  prints "@FILE" of the same body with the ids that suppliers have here: they come after the invoices
suppliers_renumbered() {
    local file=${1#@} renumbered=${1#@}.renumbered
    [ -e "$renumbered" ] || "$PERF_PYTHON" -c '
import json, sys
body = json.load(open(sys.argv[1]))
for item in body.get("items", [body]):
    item["fields"]["supplier"] += int(sys.argv[2])
print(json.dumps(body, separators=(",", ":")), end="")' "$file" "$RECORDS" >"$renumbered" || return
    echo "@$renumbered"
}

peer_footprint() { echo "$CHANCERY_BINARY"; }
