-- Files. Their bytes stand in the data directory or on S3, under the uuid; the row is there before them and gone before them.
-- A file stays while kept_until says so (an upload that waits to be used, or bytes that are being written) and while a record,
-- a template, a run or the public storage refers to it.
CREATE TABLE files (
    id {id},
    uuid TEXT NOT NULL,
    name TEXT NOT NULL,
    size BIGINT NOT NULL,
    -- The hash of the token of an upload that waits to be used.
    token TEXT,
    kept_until BIGINT,
    is_public BIGINT NOT NULL DEFAULT 0,
    record BIGINT,
    field BIGINT,
    template BIGINT,
    run BIGINT,
    created_at BIGINT NOT NULL,
    created_by BIGINT REFERENCES users(id)
);
CREATE UNIQUE INDEX files_uuid ON files(uuid);
CREATE UNIQUE INDEX files_token ON files(token) WHERE token IS NOT NULL;
CREATE INDEX files_kept ON files(kept_until, size) WHERE kept_until IS NOT NULL;
CREATE INDEX files_uploads ON files(created_by, kept_until) WHERE kept_until IS NOT NULL;
CREATE INDEX files_record ON files(record) WHERE record IS NOT NULL;
CREATE INDEX files_field ON files(field) WHERE field IS NOT NULL;
CREATE INDEX files_template ON files(template) WHERE template IS NOT NULL;
CREATE INDEX files_run ON files(run) WHERE run IS NOT NULL;
CREATE INDEX files_unheld ON files(id)
    WHERE kept_until IS NULL AND is_public = 0 AND record IS NULL AND template IS NULL AND run IS NULL;
-- Files whose rows are gone and whose bytes are still to be removed.
CREATE TABLE removed_files (
    uuid TEXT NOT NULL PRIMARY KEY
);
-- Its row is locked by uploads that begin, so that they count each other.
INSERT INTO versions(name, n) VALUES ('uploads', 1);

CREATE TABLE public_files (
    id {id},
    file BIGINT NOT NULL REFERENCES files(id),
    uuid TEXT NOT NULL,
    filename TEXT NOT NULL,
    filename_fold {text} NOT NULL,
    extension TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    created_by BIGINT REFERENCES users(id),
    modified_at BIGINT NOT NULL,
    modified_by BIGINT REFERENCES users(id)
);
CREATE UNIQUE INDEX public_files_uuid ON public_files(uuid);
CREATE UNIQUE INDEX public_files_file ON public_files(file);
