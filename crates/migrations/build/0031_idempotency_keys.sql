-- The answers of requests with an `Idempotency-Key`, for 24 hours. `key_hash` is a hash of build, account, method, address and key.
-- `answer` is sealed; it contains the hash of the request's body and the status and body of the answer.
CREATE TABLE idempotency_keys (
    id {id},
    account BIGINT NOT NULL,
    key_hash TEXT NOT NULL,
    row_key TEXT NOT NULL,
    answer TEXT NOT NULL,
    created_at BIGINT NOT NULL
);
CREATE UNIQUE INDEX idempotency_keys_hash ON idempotency_keys(key_hash);
CREATE INDEX idempotency_keys_account ON idempotency_keys(account, id);
CREATE INDEX idempotency_keys_created_at ON idempotency_keys(created_at);
