-- Who may sign in, with which rights (document 1 with document 4, sections 3 to 5).
-- Moments are microseconds since 1970, booleans 0 or 1; columns named *_fold hold the case-folded text.

CREATE TABLE users (
    id {id},
    username TEXT NOT NULL,
    username_fold {text} NOT NULL,
    account_type TEXT NOT NULL,
    first_name TEXT NOT NULL,
    last_name TEXT NOT NULL,
    full_name TEXT NOT NULL,
    full_name_fold {text} NOT NULL,
    job_title TEXT NOT NULL,
    company_name TEXT NOT NULL,
    phone TEXT NOT NULL,
    mobile TEXT NOT NULL,
    timezone TEXT NOT NULL,
    is_ip_restriction_enabled BIGINT NOT NULL,
    allowed_ip_ranges TEXT NOT NULL,
    status TEXT NOT NULL,
    is_deleted BIGINT NOT NULL DEFAULT 0,
    password_hash TEXT,
    password_salt TEXT,
    password_set_at BIGINT,
    failed_attempts BIGINT NOT NULL DEFAULT 0,
    failed_since BIGINT,
    locked_until BIGINT,
    last_login BIGINT,
    activated_at BIGINT,
    link_sent_at BIGINT,
    link_sent_by BIGINT REFERENCES users(id),
    created_at BIGINT NOT NULL,
    created_by BIGINT REFERENCES users(id),
    modified_at BIGINT NOT NULL,
    modified_by BIGINT REFERENCES users(id)
);
CREATE UNIQUE INDEX users_username ON users(username_fold) WHERE is_deleted = 0;
CREATE INDEX users_id ON users(id, full_name_fold) WHERE is_deleted = 0;
CREATE INDEX users_last_login ON users(last_login {nulls_first}, id) WHERE is_deleted = 0;
CREATE INDEX users_activated_at ON users(activated_at {nulls_first}, id) WHERE is_deleted = 0;
CREATE INDEX users_password_set_at ON users(password_set_at {nulls_first}, id) WHERE is_deleted = 0;
CREATE INDEX users_link_sent_at ON users(link_sent_at {nulls_first}, id) WHERE is_deleted = 0;
CREATE INDEX users_created_at ON users(created_at, id) WHERE is_deleted = 0;
CREATE INDEX users_modified_at ON users(modified_at, id) WHERE is_deleted = 0;
CREATE INDEX users_locked_until ON users(locked_until) WHERE locked_until IS NOT NULL;

CREATE TABLE password_history (
    id {id},
    user_id BIGINT NOT NULL REFERENCES users(id),
    digest TEXT NOT NULL
);
CREATE INDEX password_history_user ON password_history(user_id, id);

-- Rows that are counted against a limit, changed with them in one transaction; limits holds what differs from the default.
CREATE TABLE counters (
    name TEXT NOT NULL PRIMARY KEY,
    n BIGINT NOT NULL
);
CREATE TABLE limits (
    name TEXT NOT NULL PRIMARY KEY,
    value BIGINT NOT NULL
);
-- 'rights' grows with every change that a cached caller must not miss.
CREATE TABLE versions (
    name TEXT NOT NULL PRIMARY KEY,
    n BIGINT NOT NULL
);
INSERT INTO versions(name, n) VALUES ('rights', 1);

CREATE TABLE sessions (
    id {id},
    user_id BIGINT NOT NULL REFERENCES users(id),
    created_at BIGINT NOT NULL,
    last_used_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    ended_at BIGINT,
    ip TEXT NOT NULL,
    user_agent TEXT NOT NULL
);
CREATE INDEX sessions_user ON sessions(user_id, id) WHERE ended_at IS NULL;
CREATE TABLE refresh_tokens (
    hash TEXT NOT NULL PRIMARY KEY,
    session_id BIGINT NOT NULL REFERENCES sessions(id),
    expires_at BIGINT NOT NULL,
    used_at BIGINT
);
CREATE INDEX refresh_tokens_session ON refresh_tokens(session_id);
CREATE TABLE link_tokens (
    hash TEXT NOT NULL PRIMARY KEY,
    user_id BIGINT NOT NULL REFERENCES users(id),
    kind TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT
);
CREATE INDEX link_tokens_user ON link_tokens(user_id);
CREATE TABLE address_attempts (
    address TEXT NOT NULL PRIMARY KEY,
    since BIGINT NOT NULL,
    n BIGINT NOT NULL
);
-- Messages to be sent, sealed, since they lead to live links.
CREATE TABLE mail_jobs (
    id {id},
    row_key TEXT NOT NULL,
    sealed TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    attempts BIGINT NOT NULL DEFAULT 0,
    next_at BIGINT NOT NULL,
    last_error TEXT
);
CREATE INDEX mail_jobs_next ON mail_jobs(next_at);

CREATE TABLE security (
    id BIGINT NOT NULL PRIMARY KEY,
    max_repeating_chars BIGINT NOT NULL,
    min_letters BIGINT NOT NULL,
    min_numbers BIGINT NOT NULL,
    min_symbols BIGINT NOT NULL,
    min_lower_case BIGINT NOT NULL,
    min_upper_case BIGINT NOT NULL,
    min_length BIGINT NOT NULL,
    password_prevent_reuse BIGINT NOT NULL,
    password_rotation_interval BIGINT NOT NULL,
    activation_link_valid_period BIGINT NOT NULL,
    method_internal TEXT NOT NULL,
    method_external TEXT NOT NULL,
    method_full TEXT NOT NULL,
    method_super_admin TEXT NOT NULL,
    modified_at BIGINT NOT NULL DEFAULT 0,
    modified_by BIGINT REFERENCES users(id)
);
INSERT INTO security(id, max_repeating_chars, min_letters, min_numbers, min_symbols, min_lower_case, min_upper_case,
    min_length, password_prevent_reuse, password_rotation_interval, activation_link_valid_period,
    method_internal, method_external, method_full, method_super_admin)
VALUES (1, 0, 0, 0, 0, 0, 0, 8, 0, 0, 7, 'any', 'any', 'any', 'any');

CREATE TABLE roles (
    id {id},
    name TEXT NOT NULL,
    name_fold {text} NOT NULL,
    description TEXT NOT NULL,
    permissions TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    created_by BIGINT REFERENCES users(id),
    modified_at BIGINT NOT NULL,
    modified_by BIGINT REFERENCES users(id)
);
CREATE UNIQUE INDEX roles_name ON roles(name_fold);
CREATE TABLE user_roles (
    user_id BIGINT NOT NULL REFERENCES users(id),
    role_id BIGINT NOT NULL REFERENCES roles(id),
    PRIMARY KEY (user_id, role_id)
);
CREATE INDEX user_roles_role ON user_roles(role_id);

CREATE TABLE user_groups (
    id {id},
    name TEXT NOT NULL,
    name_fold {text} NOT NULL,
    description TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    created_by BIGINT REFERENCES users(id),
    modified_at BIGINT NOT NULL,
    modified_by BIGINT REFERENCES users(id)
);
CREATE UNIQUE INDEX user_groups_name ON user_groups(name_fold);
CREATE TABLE user_group_members (
    id {id},
    group_id BIGINT NOT NULL REFERENCES user_groups(id),
    user_id BIGINT NOT NULL REFERENCES users(id),
    created_at BIGINT NOT NULL,
    created_by BIGINT REFERENCES users(id)
);
CREATE UNIQUE INDEX user_group_members_pair ON user_group_members(group_id, user_id);
CREATE INDEX user_group_members_user ON user_group_members(user_id, group_id);
CREATE TABLE user_group_owners (
    id {id},
    group_id BIGINT NOT NULL REFERENCES user_groups(id),
    user_id BIGINT NOT NULL REFERENCES users(id),
    created_at BIGINT NOT NULL,
    created_by BIGINT REFERENCES users(id)
);
CREATE UNIQUE INDEX user_group_owners_pair ON user_group_owners(group_id, user_id);
CREATE INDEX user_group_owners_user ON user_group_owners(user_id, group_id);

-- permissions is a bit for each action: 1 view, 2 edit, 4 delete.
CREATE TABLE user_group_permission_sets (
    id {id},
    group_id BIGINT NOT NULL REFERENCES user_groups(id),
    name TEXT NOT NULL,
    name_fold {text} NOT NULL,
    type TEXT NOT NULL,
    permissions BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    created_by BIGINT REFERENCES users(id),
    modified_at BIGINT NOT NULL,
    modified_by BIGINT REFERENCES users(id)
);
CREATE UNIQUE INDEX user_group_permission_sets_name ON user_group_permission_sets(group_id, name_fold);
CREATE TABLE user_group_set_users (
    id {id},
    set_id BIGINT NOT NULL REFERENCES user_group_permission_sets(id),
    user_id BIGINT NOT NULL REFERENCES users(id),
    created_at BIGINT NOT NULL,
    created_by BIGINT REFERENCES users(id)
);
CREATE UNIQUE INDEX user_group_set_users_pair ON user_group_set_users(set_id, user_id);
CREATE INDEX user_group_set_users_user ON user_group_set_users(user_id, set_id);
CREATE TABLE user_group_set_groups (
    id {id},
    set_id BIGINT NOT NULL REFERENCES user_group_permission_sets(id),
    group_id BIGINT NOT NULL REFERENCES user_groups(id),
    created_at BIGINT NOT NULL,
    created_by BIGINT REFERENCES users(id)
);
CREATE UNIQUE INDEX user_group_set_groups_pair ON user_group_set_groups(set_id, group_id);
CREATE INDEX user_group_set_groups_group ON user_group_set_groups(group_id, set_id);

CREATE TABLE administration_log (
    id {id},
    at BIGINT NOT NULL,
    by_user BIGINT REFERENCES users(id),
    ip TEXT NOT NULL,
    action TEXT NOT NULL,
    resource TEXT NOT NULL,
    object_id BIGINT,
    object_name TEXT NOT NULL,
    object_name_fold {text} NOT NULL,
    changes TEXT NOT NULL
);
CREATE INDEX administration_log_at ON administration_log(at, id);
CREATE INDEX administration_log_object ON administration_log(resource, object_id);
