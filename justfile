# The commands of this repository: `just --list`. just is not needed, each line can be typed at the root.

set shell := ["bash", "-euo", "pipefail", "-c"]

# Lists the commands
[private]
default:
    @just --list --unsorted

# Serves on the embedded default, ./chancery-data
[group("run")]
run *ARGUMENTS:
    cargo run --release -p chancery -- serve {{ ARGUMENTS }}

# Makes a filled build (tenant) in ./chancery-data and prints how to sign in
[group("run")]
demo *ARGUMENTS:
    cargo run --release -p chancery -- demo {{ ARGUMENTS }}

# Checks everything that must hold for each change
[group("test")]
test:
    ./test

# Checks formatting, runs the linter and the tests of changed crates
[group("test")]
test-quick:
    ./test quick

# Checks that and what ./test leaves out, or one part: servers, requests, kills, journeys, bench
[group("test")]
test-all PART="":
    ./test all {{ PART }}

# Runs the tests of a package: just test-one records --test records -- object_records
[group("test")]
test-one PACKAGE *ARGUMENTS:
    cargo test --locked -p {{ PACKAGE }} {{ ARGUMENTS }}

# Runs the tests of a package on a PostgreSQL of their own, with history in ClickHouse
[group("test")]
test-servers PACKAGE *ARGUMENTS:
    source reliability/common.sh && start_postgresql && on_servers cargo test --locked -p {{ PACKAGE }} {{ ARGUMENTS }}

# Runs the executables of tests side by side: just test-suite --workspace --only store/both
[group("test")]
test-suite *ARGUMENTS:
    reliability/suite {{ ARGUMENTS }}

# Formats the workspace, bench and fuzz
[group("test")]
format:
    cargo fmt
    cargo fmt --manifest-path bench/Cargo.toml
    cargo fmt --manifest-path fuzz/Cargo.toml

# Runs the linter on the workspace
[group("test")]
lint:
    cargo clippy --workspace --all-targets --locked -- -D warnings

# Checks licences, sources and known vulnerabilities of all dependencies
[group("test")]
dependencies:
    cargo deny --log-level error check

# Writes the OpenAPI documents, the schema documents and the answers in docs/reference/
[group("generated files")]
update:
    UPDATE=1 cargo test --locked -p chancery --test conventions
    UPDATE=1 cargo test --locked -p chancery --test docs

# Checks and builds the console into crates/web-console/dist
[group("generated files")]
console:
    crates/web-console/build

# Checks that crates/web-console/dist is built from its source
[group("generated files")]
console-check:
    crates/web-console/build --check

# Takes the pictures of docs/console.md
[group("generated files")]
pictures:
    docs/pictures/make

# Stores the data of a released binary for the upgrade tests; VERSION is its last migration, such as 0003
[group("generated files")]
stored-data BINARY VERSION:
    reliability/stored-data {{ BINARY }} {{ VERSION }}

# Feeds random input to the readers of outside input
[group("reliability")]
fuzz SECONDS="600" *TARGETS:
    reliability/fuzz {{ SECONDS }} {{ TARGETS }}

# Calls every operation of both OpenAPI documents with generated data, in 50,000 cases
[group("reliability")]
requests *ARGUMENTS:
    reliability/requests {{ ARGUMENTS }}

# Measures memory and latency beside slow readers of large answers
[group("reliability")]
answers:
    reliability/answers

# Measures memory and latency beside 200 bodies of each shape
[group("reliability")]
bodies:
    reliability/bodies

# Serves beside 10,000 idle and half-open connections
[group("reliability")]
connections:
    reliability/connections

# Kills the server, PostgreSQL, the history service and ClickHouse under writers
[group("reliability")]
crashes *ROUNDS:
    reliability/crashes {{ ROUNDS }}

# Serves beside a peer that opens 3,000 connections, with 1,024 file descriptors
[group("reliability")]
descriptors:
    reliability/descriptors

# Opens generated documents in LibreOffice and compares their pages
[group("reliability")]
documents *DIRECTORY:
    reliability/documents {{ DIRECTORY }}

# Measures 200 slow uploads and downloads, and 100 uploads of 50 MB
[group("reliability")]
files:
    reliability/files

# Compares the times of guesses at accounts that exist and that do not
[group("reliability")]
guessing:
    reliability/guessing

# Writes 100,000 records beside the history service; with `servers` on PostgreSQL and ClickHouse
[group("reliability")]
history *ENGINES:
    reliability/history {{ ENGINES }}

# Measures the processor time of an idle server with 1,000 builds
[group("reliability")]
idle *BINARY:
    reliability/idle {{ BINARY }}

# Kills `chancery keys rotate` in the middle
[group("reliability")]
keys *ROUNDS:
    reliability/keys {{ ROUNDS }}

# Installs, restarts under load and purges the Debian package below a systemd of its own
[group("reliability")]
installing *BINARY:
    reliability/installing {{ BINARY }}

# Checks the files for containers without starting them
[group("reliability")]
manifests:
    reliability/manifests

# Tests the files of deploy/ with Caddy and nginx
[group("reliability")]
proxies *BINARY:
    reliability/proxies {{ BINARY }}

# Calls for limits, unique names, refresh tokens and owners concurrently
[group("reliability")]
races *ROUNDS:
    reliability/races {{ ROUNDS }}

# Compares rights on records with a plain model
[group("reliability")]
records *WALKS_AND_ROUNDS:
    reliability/records {{ WALKS_AND_ROUNDS }}

# Measures sign-ins at one build beside a burst at another
[group("reliability")]
sign-ins:
    reliability/sign-ins

# Kills servers while tasks remind, renew and expire
[group("reliability")]
tasks *ROUNDS:
    reliability/tasks {{ ROUNDS }}

# Kills servers while webhooks are delivered
[group("reliability")]
webhooks *ROUNDS:
    reliability/webhooks {{ ROUNDS }}

# Measures the main operations beside the floor
[group("bench")]
bench:
    bench/run

# Measures agents beside people who call the API
[group("bench")]
bench-agents:
    bench/agents

# Measures how soon the console paints a list
[group("bench")]
bench-console:
    bench/console

# Measures merges of documents beside docxtemplater and docxtpl
[group("bench")]
bench-documents:
    bench/documents

# Measures the history service beside its bare engines
[group("bench")]
bench-history:
    bench/history

# Measures Chancery beside other servers, by a harness with scripts for them
[group("bench")]
bench-peers HARNESS *PEERS:
    bench/peers {{ HARNESS }} {{ PEERS }}

# Measures records with rights beside other servers, by a harness with scripts for them
[group("bench")]
bench-records HARNESS *PEERS:
    bench/records {{ HARNESS }} {{ PEERS }}

# Measures lists of 200,000 tasks, and reminders and expiries that are due at once
[group("bench")]
bench-tasks:
    bench/tasks

# Measures 1,000 webhooks over 50 builds
[group("bench")]
bench-webhooks:
    bench/webhooks

# Makes the Debian package of a release build or of BINARY
[group("release")]
package *BINARY:
    deploy/package {{ BINARY }}

# Makes a release and tags it; with --dry-run it does not tag
[group("release")]
release VERSION *OPTIONS:
    deploy/release {{ VERSION }} {{ OPTIONS }}
