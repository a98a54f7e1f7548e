-- Classes of records that tenants declare, who owns them, and which sets give what to whom. The records of class 12 stand
-- in a table of its own, r12, which is made with the class (crates/records/src/tables.rs).
-- Rights in a set are bits (crates/records/src/rights.rs).

CREATE TABLE object_classes (
    id {id},
    name TEXT NOT NULL,
    name_fold {text} NOT NULL,
    alias TEXT NOT NULL,
    description TEXT NOT NULL,
    label_field TEXT,
    -- Raised with every change of the class, its fields and their options: by it a process knows a declaration as outdated.
    version BIGINT NOT NULL DEFAULT 1,
    -- How many fields it has ever had: by that a field gets its table, since dropped columns count on PostgreSQL.
    fields_made BIGINT NOT NULL DEFAULT 0,
    -- How many status fields it has ever had. They stand in r12 alone, where older records get their initial at once.
    statuses_made BIGINT NOT NULL DEFAULT 0,
    created_at BIGINT NOT NULL,
    created_by BIGINT REFERENCES users(id),
    modified_at BIGINT NOT NULL,
    modified_by BIGINT REFERENCES users(id)
);
CREATE UNIQUE INDEX object_classes_name ON object_classes(name_fold);
CREATE UNIQUE INDEX object_classes_alias ON object_classes(alias);

CREATE TABLE object_class_owners (
    id {id},
    class_id BIGINT NOT NULL REFERENCES object_classes(id),
    user_id BIGINT NOT NULL REFERENCES users(id),
    created_at BIGINT NOT NULL,
    created_by BIGINT REFERENCES users(id)
);
CREATE UNIQUE INDEX object_class_owners_user ON object_class_owners(class_id, user_id);
CREATE INDEX object_class_owners_class ON object_class_owners(user_id, class_id);

CREATE TABLE object_class_permission_sets (
    id {id},
    class_id BIGINT NOT NULL REFERENCES object_classes(id),
    name TEXT NOT NULL,
    name_fold {text} NOT NULL,
    type TEXT NOT NULL,
    permissions BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    created_by BIGINT REFERENCES users(id),
    modified_at BIGINT NOT NULL,
    modified_by BIGINT REFERENCES users(id)
);
CREATE UNIQUE INDEX object_class_permission_sets_name ON object_class_permission_sets(class_id, name_fold);
CREATE TABLE object_class_set_users (
    id {id},
    set_id BIGINT NOT NULL REFERENCES object_class_permission_sets(id),
    user_id BIGINT NOT NULL REFERENCES users(id),
    created_at BIGINT NOT NULL,
    created_by BIGINT REFERENCES users(id)
);
CREATE UNIQUE INDEX object_class_set_users_user ON object_class_set_users(set_id, user_id);
CREATE INDEX object_class_set_users_set ON object_class_set_users(user_id, set_id);
CREATE TABLE object_class_set_groups (
    id {id},
    set_id BIGINT NOT NULL REFERENCES object_class_permission_sets(id),
    group_id BIGINT NOT NULL REFERENCES user_groups(id),
    created_at BIGINT NOT NULL,
    created_by BIGINT REFERENCES users(id)
);
CREATE UNIQUE INDEX object_class_set_groups_group ON object_class_set_groups(set_id, group_id);
CREATE INDEX object_class_set_groups_set ON object_class_set_groups(group_id, set_id);

-- Its row is locked by those who relate a class to another, so that two at once close no circle of classes.
INSERT INTO versions(name, n) VALUES ('object_relations', 1);

CREATE TABLE object_class_fields (
    id {id},
    class_id BIGINT NOT NULL REFERENCES object_classes(id),
    alias TEXT NOT NULL,
    label TEXT NOT NULL,
    label_fold {text} NOT NULL,
    description TEXT NOT NULL,
    type TEXT NOT NULL,
    -- JSON, in the form of answers.
    default_value TEXT,
    is_required BIGINT NOT NULL,
    is_unique BIGINT NOT NULL,
    -- Whether an index is wanted, and whether it stands.
    wants_index BIGINT NOT NULL,
    is_indexed BIGINT NOT NULL,
    position BIGINT NOT NULL,
    max_length BIGINT,
    min_value BIGINT,
    max_value BIGINT,
    num_precision BIGINT,
    num_scale BIGINT,
    max_num_of_files BIGINT,
    -- A JSON array of {value, text}.
    options TEXT,
    initial TEXT,
    related_object_class BIGINT REFERENCES object_classes(id),
    on_delete TEXT,
    -- Which of the tables of the class has its column: 0 for r12, 1 for r12_1 and so on.
    table_number BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    created_by BIGINT REFERENCES users(id),
    modified_at BIGINT NOT NULL,
    modified_by BIGINT REFERENCES users(id)
);
CREATE UNIQUE INDEX object_class_fields_alias ON object_class_fields(class_id, alias);
CREATE INDEX object_class_fields_related ON object_class_fields(related_object_class) WHERE related_object_class IS NOT NULL;

-- Which class a record is of.
CREATE TABLE records (
    id {id},
    class_id BIGINT NOT NULL
);
-- The records of a class are the sum of its slots: one row for each class would be locked by every create.
CREATE TABLE record_counts (
    class_id BIGINT NOT NULL,
    slot BIGINT NOT NULL,
    n BIGINT NOT NULL,
    PRIMARY KEY (class_id, slot)
);

CREATE TABLE record_permission_sets (
    id {id},
    class_id BIGINT NOT NULL REFERENCES object_classes(id),
    name TEXT NOT NULL,
    name_fold {text} NOT NULL,
    permissions BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    created_by BIGINT REFERENCES users(id),
    modified_at BIGINT NOT NULL,
    modified_by BIGINT REFERENCES users(id)
);
CREATE UNIQUE INDEX record_permission_sets_name ON record_permission_sets(class_id, name_fold);

-- Who is assigned to a record by a set: a user, or a group as its negative id. n is the record's number within its class.
CREATE TABLE record_assignees (
    id {id},
    record BIGINT NOT NULL,
    permission_set BIGINT NOT NULL,
    principal BIGINT NOT NULL,
    n BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    created_by BIGINT
);
CREATE UNIQUE INDEX record_assignees_record ON record_assignees(record, permission_set, principal);
CREATE INDEX record_assignees_principal ON record_assignees(permission_set, principal, n);
CREATE INDEX record_assignees_leaving ON record_assignees(principal);
-- By these versions a process knows that the records which a principal sees in a class are others now. They stand in slots,
-- which are added up, as the counts do. owned is how many records a user owns there.
CREATE TABLE record_viewers (
    principal BIGINT NOT NULL,
    class_id BIGINT NOT NULL,
    slot BIGINT NOT NULL,
    version BIGINT NOT NULL,
    owned BIGINT NOT NULL,
    PRIMARY KEY (principal, class_id, slot)
);

CREATE TABLE deleted_records (
    id BIGINT NOT NULL PRIMARY KEY,
    class_id BIGINT NOT NULL,
    label TEXT NOT NULL,
    -- JSON by the ids of fields, with the owner and who created the record when.
    content TEXT NOT NULL,
    deleted_at BIGINT NOT NULL,
    deleted_by BIGINT REFERENCES users(id),
    gone_at BIGINT NOT NULL
);
CREATE INDEX deleted_records_class ON deleted_records(class_id, deleted_at, id);
CREATE INDEX deleted_records_gone ON deleted_records(gone_at);

-- Links that export without a header, by the hash of their token: whose they are, of which session and kind of credential,
-- and the parameters of the list.
CREATE TABLE export_links (
    token TEXT NOT NULL PRIMARY KEY,
    class_id BIGINT NOT NULL,
    user_id BIGINT NOT NULL,
    session BIGINT NOT NULL,
    credential TEXT NOT NULL,
    query TEXT NOT NULL,
    expires_at BIGINT NOT NULL
);
CREATE INDEX export_links_user ON export_links(user_id, expires_at);
CREATE INDEX export_links_expired ON export_links(expires_at);

-- Connectors of agents and the classes that they are associated with. What fills them comes with connectors; record
-- permission sets name them.
CREATE TABLE mcp_connectors (
    id {id},
    name TEXT NOT NULL,
    integration BIGINT
);
CREATE TABLE mcp_connector_classes (
    connector BIGINT NOT NULL REFERENCES mcp_connectors(id),
    object_class BIGINT NOT NULL REFERENCES object_classes(id),
    PRIMARY KEY (connector, object_class)
);
CREATE INDEX mcp_connector_classes_class ON mcp_connector_classes(object_class, connector);
CREATE TABLE record_set_connectors (
    permission_set BIGINT NOT NULL REFERENCES record_permission_sets(id),
    connector BIGINT NOT NULL,
    permissions BIGINT NOT NULL,
    PRIMARY KEY (permission_set, connector)
);
