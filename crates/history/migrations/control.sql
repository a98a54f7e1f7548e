-- The tenants of the SQLite engine. A tenant's database is named after its client id. `state` is `active` or
-- `deleting`.
CREATE TABLE tenants (
    client_id {text} NOT NULL PRIMARY KEY,
    secret_hash TEXT NOT NULL,
    database_name {text} NOT NULL,
    client_label {text} NOT NULL,
    state TEXT NOT NULL,
    created_at BIGINT NOT NULL
);
CREATE UNIQUE INDEX tenants_database_name ON tenants(database_name);
CREATE UNIQUE INDEX tenants_client_label ON tenants(client_label);
