-- Background work (crates/kit/src/jobs). payload is sealed, row_key is the random key that its seal is bound to. once_key: of
-- jobs of a kind with the same key there is one. held_until: until when the process `holder` has it. done, total: progress.
-- is_asked_again: its cause came again while it ran. Ids begin far above those of mail_jobs, whose rows keep theirs here.
CREATE TABLE jobs (
    id {high_id},
    kind TEXT NOT NULL,
    once_key TEXT,
    row_key TEXT NOT NULL,
    payload TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    next_at BIGINT NOT NULL,
    attempts BIGINT NOT NULL DEFAULT 0,
    last_error TEXT,
    holder TEXT,
    held_until BIGINT,
    done BIGINT NOT NULL DEFAULT 0,
    total BIGINT,
    is_asked_again BIGINT NOT NULL DEFAULT 0,
    is_canceled BIGINT NOT NULL DEFAULT 0
);
CREATE UNIQUE INDEX jobs_once ON jobs(kind, once_key) WHERE once_key IS NOT NULL;
CREATE INDEX jobs_next ON jobs(kind, next_at, id) WHERE held_until IS NULL;
CREATE INDEX jobs_held ON jobs(held_until) WHERE held_until IS NOT NULL;
CREATE INDEX jobs_canceled ON jobs(id) WHERE is_canceled = 1;
-- Where ids are counted from the highest that there was.
INSERT INTO jobs(id, kind, row_key, payload, created_at, next_at) VALUES (1099511627775, '', '', '', 0, 0);
DELETE FROM jobs;
