-- Single sign-on (document 1, "Single sign-on configurations"; document 4, section 3) and what waits for the history
-- service (document 3, "System events").

-- client_secret is sealed; secret_key is the random key of the row that its seal is bound to.
CREATE TABLE single_sign_on (
    id {id},
    name TEXT NOT NULL,
    name_fold {text} NOT NULL,
    client_id TEXT NOT NULL,
    client_secret TEXT NOT NULL,
    secret_key TEXT NOT NULL,
    tenant_id TEXT NOT NULL,
    provider TEXT NOT NULL,
    is_enabled BIGINT NOT NULL,
    auto_create_user BIGINT NOT NULL,
    is_docs_addin_enabled BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    created_by BIGINT REFERENCES users(id),
    modified_at BIGINT NOT NULL,
    modified_by BIGINT REFERENCES users(id)
);
CREATE UNIQUE INDEX single_sign_on_name ON single_sign_on(name_fold);
CREATE UNIQUE INDEX single_sign_on_docs_addin ON single_sign_on(client_id, tenant_id) WHERE is_docs_addin_enabled = 1;
CREATE TABLE single_sign_on_roles (
    single_sign_on_id BIGINT NOT NULL REFERENCES single_sign_on(id),
    role_id BIGINT NOT NULL REFERENCES roles(id),
    PRIMARY KEY (single_sign_on_id, role_id)
);
CREATE INDEX single_sign_on_roles_role ON single_sign_on_roles(role_id);

-- Who somebody is elsewhere. is_linked: bound by the user while signed in, not by an address.
CREATE TABLE single_sign_on_identities (
    id {id},
    issuer TEXT NOT NULL,
    subject TEXT NOT NULL,
    user_id BIGINT NOT NULL REFERENCES users(id),
    is_linked BIGINT NOT NULL,
    created_at BIGINT NOT NULL
);
CREATE UNIQUE INDEX single_sign_on_identities_subject ON single_sign_on_identities(issuer, subject);
CREATE INDEX single_sign_on_identities_user ON single_sign_on_identities(user_id);

-- States that came back once, until they would have expired.
CREATE TABLE single_sign_on_spent (
    hash TEXT NOT NULL PRIMARY KEY,
    expires_at BIGINT NOT NULL
);
CREATE INDEX single_sign_on_spent_expires ON single_sign_on_spent(expires_at);
-- One-time tickets: a sign-in that is to become a session (session_id is null), or a session that is to be ended.
CREATE TABLE single_sign_on_tickets (
    hash TEXT NOT NULL PRIMARY KEY,
    single_sign_on_id BIGINT NOT NULL,
    user_id BIGINT NOT NULL REFERENCES users(id),
    session_id BIGINT REFERENCES sessions(id),
    expires_at BIGINT NOT NULL
);
CREATE INDEX single_sign_on_tickets_expires ON single_sign_on_tickets(expires_at);
CREATE INDEX single_sign_on_tickets_user ON single_sign_on_tickets(user_id);

-- The configuration that a session began with, even if it is gone; null for a session begun with a password.
ALTER TABLE sessions ADD COLUMN single_sign_on_id BIGINT;

-- Events that wait for the history service, in their order (outbox.rs). kind: system or history. body: the event as the
-- history service takes it, JSON. size: what the row counts for the bound. fold_key: whose row is shared until it is
-- delivered.
CREATE TABLE outbox (
    n {id},
    id TEXT NOT NULL,
    kind TEXT NOT NULL,
    size BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    fold_key TEXT,
    body TEXT NOT NULL
);
CREATE UNIQUE INDEX outbox_id ON outbox(id);
CREATE UNIQUE INDEX outbox_fold_key ON outbox(fold_key) WHERE fold_key IS NOT NULL;
CREATE INDEX outbox_ready ON outbox(n) WHERE fold_key IS NULL;
CREATE INDEX outbox_folded ON outbox(created_at) WHERE fold_key IS NOT NULL;
-- Which process delivers, until when; one row.
CREATE TABLE outbox_claim (
    holder TEXT NOT NULL,
    until BIGINT NOT NULL
);
INSERT INTO outbox_claim(holder, until) VALUES ('', 0);
-- Events that the history service refused for good.
CREATE TABLE outbox_refused (
    id TEXT NOT NULL PRIMARY KEY,
    kind TEXT NOT NULL,
    reason TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    refused_at BIGINT NOT NULL,
    body TEXT NOT NULL
);
