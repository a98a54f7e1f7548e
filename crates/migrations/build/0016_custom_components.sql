-- Git repositories of custom components. What an import brought is one stored file, in which the files of a commit follow each other.
CREATE TABLE custom_component_repositories (
    id {id},
    repository_url TEXT NOT NULL,
    username TEXT NOT NULL,
    token TEXT,
    token_row TEXT NOT NULL,
    status TEXT NOT NULL,
    -- Why the last import failed: a JSON object.
    errors TEXT,
    -- What the configuration of the commit that is served says; NULL before the first import.
    version TEXT,
    publisher TEXT,
    publisher_url TEXT,
    logo TEXT,
    parameters TEXT NOT NULL DEFAULT '[]',
    commit_id TEXT,
    file BIGINT,
    imported_at BIGINT,
    -- Counts the imports that were asked for, so that only the last one ends; by whom it was; and its job.
    import_n BIGINT NOT NULL DEFAULT 1,
    import_by BIGINT NOT NULL REFERENCES users(id),
    job BIGINT,
    created_at BIGINT NOT NULL,
    created_by BIGINT REFERENCES users(id),
    modified_at BIGINT,
    modified_by BIGINT REFERENCES users(id)
);

-- Where each file of the served commit stands in the stored one.
CREATE TABLE custom_component_files (
    repository BIGINT NOT NULL,
    path TEXT NOT NULL,
    start BIGINT NOT NULL,
    size BIGINT NOT NULL,
    PRIMARY KEY (repository, path)
);

ALTER TABLE custom_components ADD COLUMN name_fold {text} NOT NULL DEFAULT '';
ALTER TABLE custom_components ADD COLUMN description TEXT NOT NULL DEFAULT '';
ALTER TABLE custom_components ADD COLUMN repository BIGINT REFERENCES custom_component_repositories(id);
ALTER TABLE custom_components ADD COLUMN status TEXT NOT NULL DEFAULT 'processing';
-- A JSON object of bools.
ALTER TABLE custom_components ADD COLUMN available_use TEXT NOT NULL DEFAULT '{}';
ALTER TABLE custom_components ADD COLUMN created_at BIGINT NOT NULL DEFAULT 0;
ALTER TABLE custom_components ADD COLUMN created_by BIGINT REFERENCES users(id);
ALTER TABLE custom_components ADD COLUMN modified_at BIGINT NOT NULL DEFAULT 0;
ALTER TABLE custom_components ADD COLUMN modified_by BIGINT REFERENCES users(id);
-- No endpoint made components before this.
CREATE UNIQUE INDEX custom_components_name ON custom_components(name_fold) WHERE name_fold <> '';
CREATE UNIQUE INDEX custom_components_repository ON custom_components(repository);
CREATE INDEX custom_components_processing ON custom_components(repository) WHERE status = 'processing';

-- The stored files of imports. Their record is 0: processes of the former version, which know no imports, keep them for that.
ALTER TABLE files ADD COLUMN component_repository BIGINT;
CREATE INDEX files_component_repository ON files(component_repository) WHERE component_repository IS NOT NULL;
