-- The tokens of directories. A token itself is not stored.
CREATE TABLE scim_tokens (
    id {id},
    name TEXT NOT NULL,
    name_fold {text} NOT NULL,
    single_sign_on BIGINT NOT NULL REFERENCES single_sign_on(id),
    -- The SHA-256 of the token, in hexadecimal digits.
    hash TEXT NOT NULL,
    expires_at BIGINT,
    last_used_at BIGINT,
    created_at BIGINT NOT NULL,
    created_by BIGINT
);
CREATE UNIQUE INDEX scim_tokens_hash ON scim_tokens(hash);
CREATE UNIQUE INDEX scim_tokens_name ON scim_tokens(name_fold);
CREATE INDEX scim_tokens_single_sign_on ON scim_tokens(single_sign_on);
-- The facts about users that directories have stored. A user without a row was never changed by a directory.
CREATE TABLE scim_users (
    single_sign_on BIGINT NOT NULL,
    user_id BIGINT NOT NULL REFERENCES users(id),
    external_id {text},
    -- Is 1 if the directory has deactivated the account, so that it may revive it.
    is_deactivated BIGINT NOT NULL,
    -- Is 1 if the directory has deleted the user, which it does not see until a POST of the name.
    is_deleted BIGINT NOT NULL,
    PRIMARY KEY (single_sign_on, user_id)
);
CREATE UNIQUE INDEX scim_users_external_id ON scim_users(single_sign_on, external_id) WHERE external_id IS NOT NULL;
CREATE INDEX scim_users_user ON scim_users(user_id);
-- The groups that directories have made.
CREATE TABLE scim_groups (
    group_id BIGINT NOT NULL PRIMARY KEY REFERENCES user_groups(id),
    single_sign_on BIGINT NOT NULL,
    external_id {text}
);
CREATE UNIQUE INDEX scim_groups_external_id ON scim_groups(single_sign_on, external_id) WHERE external_id IS NOT NULL;
