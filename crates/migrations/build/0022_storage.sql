-- The bytes of a file that count under the limit of storage. NULL: its size; processes of the former version write no other rows.
ALTER TABLE files ADD COLUMN counted BIGINT;
-- All bytes that count, and those of the copies of documents in the history service among them.
INSERT INTO counters(name, n) SELECT 'storage_bytes', CAST(COALESCE(sum(size), 0) AS BIGINT) FROM files;
INSERT INTO counters(name, n) VALUES ('event_file_bytes', 0);
-- When the files are counted again: processes of the former version, which run for a while beside this one, do not count.
INSERT INTO counters(name, n) SELECT 'storage_count_due', 0 WHERE EXISTS (SELECT 1 FROM files);

-- The content of a generated document, and its copy in the history service with the tenant there. NULL: made by a former version.
ALTER TABLE document_runs ADD COLUMN content_hash TEXT;
ALTER TABLE document_runs ADD COLUMN copy_tenant TEXT;
ALTER TABLE document_runs ADD COLUMN copy_file TEXT;
