-- The tenant of each build in the history service (history_tenants.rs). client_id is null until it is made, and never
-- changes afterwards; client_secret is sealed. build_deleted_at: the build is gone, its history stays.
CREATE TABLE history_tenants (
    build_uid TEXT NOT NULL PRIMARY KEY,
    domain TEXT NOT NULL,
    attempt BIGINT NOT NULL,
    database_name TEXT NOT NULL,
    client_id TEXT,
    client_secret TEXT,
    created_at BIGINT NOT NULL,
    build_deleted_at BIGINT
);
