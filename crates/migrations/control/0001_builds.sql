-- The builds of this installation and the key that their secrets are sealed with.
CREATE TABLE builds (
    id {id},
    domain TEXT NOT NULL,
    uid TEXT NOT NULL,
    state TEXT NOT NULL,
    created_at BIGINT NOT NULL
);
CREATE UNIQUE INDEX builds_domain ON builds(domain);
CREATE TABLE settings (
    name TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
);
