-- The keys by which programs call for service accounts. A key itself is not stored.
CREATE TABLE api_keys (
    id {id},
    user_id BIGINT NOT NULL REFERENCES users(id),
    name TEXT NOT NULL,
    name_fold {text} NOT NULL,
    prefix TEXT NOT NULL,
    -- The SHA-256 of the key, in hexadecimal digits.
    hash TEXT NOT NULL,
    -- The permissions of a narrowed key as JSON; NULL: those of its account.
    permissions TEXT,
    expires_at BIGINT NOT NULL,
    last_used_at BIGINT,
    created_at BIGINT NOT NULL,
    created_by BIGINT
);
CREATE UNIQUE INDEX api_keys_hash ON api_keys(hash);
CREATE UNIQUE INDEX api_keys_name ON api_keys(user_id, name_fold);
-- The key that requested a run, whose rights the run has. NULL: the requester's session.
ALTER TABLE document_runs ADD COLUMN api_key BIGINT;
