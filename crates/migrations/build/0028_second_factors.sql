-- Second factors of accounts. A factor without `confirmed_at` is not in use yet. `secret` is the sealed key of a code generator.
-- A passkey has a credential, whose public key is not a secret.
CREATE TABLE second_factors (
    id {id},
    user_id BIGINT NOT NULL,
    type TEXT NOT NULL,
    name {text} NOT NULL,
    name_fold {text} NOT NULL,
    created_at BIGINT NOT NULL,
    confirmed_at BIGINT,
    last_used_at BIGINT,
    secret TEXT,
    secret_row TEXT NOT NULL,
    challenge_hash TEXT,
    user_handle TEXT,
    credential_id TEXT,
    public_key TEXT,
    sign_count BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX second_factors_user ON second_factors (user_id);
CREATE UNIQUE INDEX second_factors_name ON second_factors (user_id, name_fold) WHERE confirmed_at IS NOT NULL;
CREATE UNIQUE INDEX second_factors_credential ON second_factors (credential_id) WHERE credential_id IS NOT NULL;

-- The steps of time whose codes were used. The key lets each step count once in all processes.
CREATE TABLE used_code_steps (
    factor_id BIGINT NOT NULL,
    step BIGINT NOT NULL,
    PRIMARY KEY (factor_id, step)
);

-- Hashes of recovery codes, sealed because a code is short enough to be guessed from its hash.
CREATE TABLE recovery_codes (
    id {id},
    user_id BIGINT NOT NULL,
    code_hash TEXT NOT NULL,
    code_row TEXT NOT NULL
);
CREATE INDEX recovery_codes_user ON recovery_codes (user_id);

-- Sign-ins between their first and their second step. A sign-in by a passkey alone has no user, and the network of its client.
CREATE TABLE sign_in_challenges (
    hash TEXT PRIMARY KEY,
    purpose TEXT NOT NULL,
    user_id BIGINT,
    network TEXT,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    failures BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX sign_in_challenges_user ON sign_in_challenges (user_id);
CREATE INDEX sign_in_challenges_network ON sign_in_challenges (network);
CREATE INDEX sign_in_challenges_expires_at ON sign_in_challenges (expires_at);

-- Whether the accounts of a type must have a second factor: off, optional or required.
ALTER TABLE security ADD COLUMN second_factor_internal TEXT NOT NULL DEFAULT 'optional';
ALTER TABLE security ADD COLUMN second_factor_external TEXT NOT NULL DEFAULT 'optional';
ALTER TABLE security ADD COLUMN second_factor_full TEXT NOT NULL DEFAULT 'optional';
ALTER TABLE security ADD COLUMN second_factor_super_admin TEXT NOT NULL DEFAULT 'optional';
