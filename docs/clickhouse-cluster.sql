-- The history service on a ClickHouse cluster: a schema to start from.
--
-- The service makes a tenant's database itself (`tenant_` and the 32 hexadecimal digits of the client id) on the server
-- that CHANCERY_HISTORY_DATABASE_URL names. On a cluster, replace it after `initialize-tenant` and before the first event,
-- while it is empty (DROP DATABASE tenant_0123 SYNC), by what stands here, and put in
--   {cluster}         the cluster's name, of remote_servers
--   tenant_0123       the tenant's database
-- {shard} and {replica} are macros of each server and stay as they are. The statements need a Keeper.
--
-- Where the service is pointed to, as https://history:PASSWORD@SERVER:8443/chancery_history: at ONE server of the cluster
-- at a time, by its own name or by an address that moves to another server only when the first one is down (not at a
-- balancer that spreads connections). What makes an event be stored once is a table `writer_N` that the service makes, and
-- `system.processes`, where it looks whether an insert of a dead process still runs: the entries of one server. Servers
-- that take over must have caught up first, which the quorum below makes sure of. This has been designed, not tested on a
-- cluster.
--
-- Rights of the service's user, on chancery_history.* and tenant_*.*: CREATE and DROP DATABASE, CREATE, DROP and ALTER
-- TABLE, INSERT, SELECT; and CREATE TEMPORARY TABLE on *.*, for the table function `input`. It sees its own entries of
-- system.processes and may kill them without a further right. All processes of the service must use the same user.

-- A database whose statements are carried out by every replica, so that `writer_N` moves with the rest when another server
-- takes over. Making a table is atomic in it: Keeper lets one of several through.
CREATE DATABASE tenant_0123 ON CLUSTER '{cluster}'
ENGINE = Replicated('/clickhouse/databases/tenant_0123', '{shard}', '{replica}');

-- The same for the database of tenants, before the service is started for the first time.
CREATE DATABASE chancery_history ON CLUSTER '{cluster}'
ENGINE = Replicated('/clickhouse/databases/chancery_history', '{shard}', '{replica}');

-- In a Replicated database no ON CLUSTER is needed, and the paths in Keeper come from the server.
CREATE TABLE tenant_0123.history_events
(
    event_id FixedString(16),                                  -- the bytes of the uuid, which sort as lists do
    event_datetime DateTime64(6, 'UTC') CODEC(Delta(8), ZSTD(1)),
    rank UInt8,                                                -- 0 record_created, 1 owner_initialized, 2 the others
    event_type UInt8,
    record_id Int64 CODEC(ZSTD(1)),
    source_id Int64 CODEC(ZSTD(1)),
    source_type UInt8,
    source_name Nullable(String) CODEC(ZSTD(1)),
    source_info String CODEC(ZSTD(1)),
    event_data String CODEC(ZSTD(1)),
    session UInt64 CODEC(ZSTD(1)),                             -- with `batch`: the insert that it came by
    batch UInt32 CODEC(ZSTD(1)),
    INDEX ids event_id TYPE bloom_filter(0.001) GRANULARITY 1,
    INDEX sessions session TYPE minmax GRANULARITY 1,
    INDEX records record_id TYPE bloom_filter(0.001) GRANULARITY 1
)
ENGINE = ReplicatedMergeTree
ORDER BY (event_datetime, rank, event_id)
-- No TTL: nothing is removed but with the tenant. No partitions: an insert is one part, stored as a whole or not at all.
SETTINGS replicated_deduplication_window = 1000, fsync_after_insert = 1, fsync_part_directory = 1;

CREATE TABLE tenant_0123.system_events
(
    event_id FixedString(16),
    event_datetime DateTime64(6, 'UTC') CODEC(Delta(8), ZSTD(1)),
    category UInt8,
    event_type UInt8,
    source_id Int64 CODEC(ZSTD(1)),
    source_type UInt8,
    source_info String CODEC(ZSTD(1)),
    source_ip String CODEC(ZSTD(1)),
    event_data String CODEC(ZSTD(1)),
    session UInt64 CODEC(ZSTD(1)),
    batch UInt32 CODEC(ZSTD(1)),
    INDEX ids event_id TYPE bloom_filter(0.001) GRANULARITY 1,
    INDEX sessions session TYPE minmax GRANULARITY 1
)
ENGINE = ReplicatedMergeTree
ORDER BY (event_datetime, event_id)
SETTINGS replicated_deduplication_window = 1000, fsync_after_insert = 1, fsync_part_directory = 1;

-- The first session, ended. Later ones are made and dropped by the service.
CREATE TABLE tenant_0123.writer_0 (held UInt8) ENGINE = Null COMMENT 'ended';

-- Settings of the service's user. With a quorum an acknowledged event is on more than one server; select_sequential_
-- consistency lets a server that has just taken over answer only when it has everything that was acknowledged.
CREATE SETTINGS PROFILE chancery_history ON CLUSTER '{cluster}'
SETTINGS insert_quorum = 'auto', insert_quorum_parallel = 0, select_sequential_consistency = 1;
-- ALTER USER history ON CLUSTER '{cluster}' SETTINGS PROFILE 'chancery_history';

-- Shards. One tenant's events are counted and compared as a whole, so a tenant lives in one shard: spread tenants over
-- shards by a service (and an address) for each shard. To read over all shards, for reports and not for the service:
CREATE TABLE tenant_0123.all_system_events AS tenant_0123.system_events
ENGINE = Distributed('{cluster}', 'tenant_0123', 'system_events', cityHash64(event_id));
