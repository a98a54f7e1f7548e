-- Sequences: what a build does automatically. A draft is JSON; a version is a draft that was published.
CREATE TABLE sequences (
    id {id},
    name TEXT NOT NULL,
    name_fold {text} NOT NULL,
    description TEXT NOT NULL,
    -- The draft, JSON.
    definition TEXT NOT NULL,
    status TEXT NOT NULL DEFAULT 'draft',
    paused_because TEXT NOT NULL DEFAULT '',
    -- Is 1 while a pause holds the runs in progress.
    is_holding BIGINT NOT NULL DEFAULT 0,
    paused_by BIGINT,
    warning TEXT NOT NULL DEFAULT '',
    -- The version of the published definition; NULL until the first publication.
    published_version BIGINT,
    -- The account of the published version, its trigger and its class.
    runs_as BIGINT,
    trigger_type TEXT,
    object_class BIGINT,
    -- Who may start runs of a published manual trigger, and whether they must be able to edit the record.
    from_people BIGINT NOT NULL DEFAULT 0,
    from_agents BIGINT NOT NULL DEFAULT 0,
    needs_edit BIGINT NOT NULL DEFAULT 0,
    -- Is 1 if the draft differs from the published version.
    has_changes BIGINT NOT NULL DEFAULT 1,
    -- Failures before this time do not count for the pause after many of them.
    failures_since BIGINT NOT NULL DEFAULT 0,
    -- The time of the last mail about a failed run.
    failure_mailed_at BIGINT NOT NULL DEFAULT 0,
    -- The published schedule: its trigger as JSON, the date from which its intervals count, the next moment and the last one that was done.
    schedule_key TEXT,
    schedule_from TEXT,
    schedule_next BIGINT,
    schedule_done BIGINT,
    created_at BIGINT NOT NULL,
    created_by BIGINT,
    modified_at BIGINT NOT NULL,
    modified_by BIGINT
);
CREATE UNIQUE INDEX sequences_name ON sequences(name_fold);
CREATE INDEX sequences_trigger ON sequences(object_class, trigger_type);
CREATE INDEX sequences_account ON sequences(runs_as);

-- The groups whose members alone may start runs of the published version.
CREATE TABLE sequence_groups (
    sequence BIGINT NOT NULL,
    group_id BIGINT NOT NULL,
    PRIMARY KEY (sequence, group_id)
);

CREATE TABLE sequence_versions (
    id {id},
    sequence BIGINT NOT NULL,
    version BIGINT NOT NULL,
    definition TEXT NOT NULL,
    -- The account whose rights its runs have.
    runs_as BIGINT NOT NULL,
    published_at BIGINT NOT NULL,
    published_by BIGINT,
    comment TEXT NOT NULL
);
CREATE UNIQUE INDEX sequence_versions_number ON sequence_versions(sequence, version);
CREATE INDEX sequence_versions_account ON sequence_versions(runs_as);

-- The classes to whose records a version listens.
CREATE TABLE sequence_classes (
    sequence BIGINT NOT NULL,
    version BIGINT NOT NULL,
    class_id BIGINT NOT NULL,
    PRIMARY KEY (sequence, version, class_id)
);
CREATE INDEX sequence_classes_class ON sequence_classes(class_id);

-- Is 1 if sequences listen to the records of the class. It changes with the version of the class.
ALTER TABLE object_classes ADD COLUMN starts_sequences BIGINT NOT NULL DEFAULT 0;

-- Moments of schedules whose runs, one for each of many records, are not all written. The records until `after_record` have theirs.
CREATE TABLE sequence_moments (
    sequence BIGINT NOT NULL,
    version BIGINT NOT NULL,
    moment BIGINT NOT NULL,
    after_record BIGINT NOT NULL,
    n BIGINT NOT NULL,
    PRIMARY KEY (sequence, moment)
);

CREATE TABLE sequence_runs (
    id {id},
    uuid TEXT NOT NULL,
    sequence BIGINT NOT NULL,
    version BIGINT NOT NULL,
    status TEXT NOT NULL,
    -- The time at which a process continues the run; NULL once it has ended.
    due_at BIGINT,
    trigger_type TEXT NOT NULL,
    -- What happened to the record: created, changed, …; otherwise empty.
    event TEXT NOT NULL,
    record BIGINT,
    class_id BIGINT,
    task BIGINT,
    concurrency TEXT NOT NULL,
    -- The account as which an ended run was done; NULL while it is in progress.
    runs_as BIGINT,
    source_type TEXT NOT NULL,
    source_id BIGINT,
    source_name TEXT,
    event_id TEXT,
    -- The person who started it.
    starter BIGINT,
    -- The uuids of the first run of its cause, and of the run whose effect started it.
    cause TEXT NOT NULL,
    parent TEXT,
    depth BIGINT NOT NULL,
    started_at BIGINT NOT NULL,
    begun_at BIGINT,
    ended_at BIGINT,
    step TEXT,
    num_of_steps BIGINT NOT NULL DEFAULT 0,
    -- The attempts of the current step that failed for reasons that pass, and the time of the first.
    attempts BIGINT NOT NULL DEFAULT 0,
    trying_since BIGINT,
    -- What a waiting run waits for.
    waits_task BIGINT,
    waits_record BIGINT,
    waits_document BIGINT,
    error_step TEXT,
    error_status BIGINT,
    -- The random key of the row, and the values that are sealed with it: the error, the inputs, the position with all outputs.
    row_key TEXT NOT NULL,
    error_body TEXT,
    inputs TEXT,
    state TEXT,
    input_bytes BIGINT NOT NULL,
    value_bytes BIGINT NOT NULL DEFAULT 0
);
CREATE UNIQUE INDEX sequence_runs_uuid ON sequence_runs(uuid);
CREATE INDEX sequence_runs_due ON sequence_runs(sequence, due_at) WHERE due_at IS NOT NULL;
CREATE INDEX sequence_runs_progress ON sequence_runs(sequence, record) WHERE ended_at IS NULL;
CREATE INDEX sequence_runs_ended ON sequence_runs(sequence, ended_at);
CREATE INDEX sequence_runs_old ON sequence_runs(ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX sequence_runs_begun ON sequence_runs(sequence, begun_at) WHERE begun_at IS NOT NULL;
CREATE INDEX sequence_runs_started ON sequence_runs(sequence, started_at);
CREATE INDEX sequence_runs_record ON sequence_runs(record) WHERE record IS NOT NULL;
CREATE INDEX sequence_runs_cause ON sequence_runs(cause, sequence);
CREATE INDEX sequence_runs_starter ON sequence_runs(starter) WHERE starter IS NOT NULL;
CREATE INDEX sequence_runs_waits_task ON sequence_runs(waits_task) WHERE waits_task IS NOT NULL;
CREATE INDEX sequence_runs_waits_record ON sequence_runs(waits_record) WHERE waits_record IS NOT NULL;
CREATE INDEX sequence_runs_waits_document ON sequence_runs(waits_document) WHERE waits_document IS NOT NULL;
CREATE INDEX sequence_runs_version ON sequence_runs(sequence, version);

CREATE TABLE sequence_steps (
    id {id},
    run BIGINT NOT NULL,
    n BIGINT NOT NULL,
    path TEXT NOT NULL,
    type TEXT NOT NULL,
    status TEXT NOT NULL,
    started_at BIGINT NOT NULL,
    ended_at BIGINT,
    attempts BIGINT NOT NULL,
    runs_as BIGINT,
    record BIGINT,
    task BIGINT,
    error_status BIGINT,
    row_key TEXT NOT NULL,
    input TEXT,
    output TEXT,
    error_body TEXT
);
CREATE UNIQUE INDEX sequence_steps_run ON sequence_steps(run, n);

-- The number of mails that sequences have sent on a day (UTC).
CREATE TABLE sequence_mails (
    day BIGINT PRIMARY KEY,
    n BIGINT NOT NULL
);

-- Runs whose task or record has changed while they waited for it. Writers only add rows.
CREATE TABLE sequence_wakes (
    id {id},
    run BIGINT NOT NULL
);
CREATE INDEX sequence_wakes_run ON sequence_wakes(run);

-- Starts that did not become runs, by hour and reason.
CREATE TABLE sequence_skips (
    id {id},
    sequence BIGINT NOT NULL,
    hour BIGINT NOT NULL,
    reason TEXT NOT NULL,
    n BIGINT NOT NULL,
    last_record BIGINT
);
CREATE UNIQUE INDEX sequence_skips_hour ON sequence_skips(sequence, hour, reason);
CREATE INDEX sequence_skips_old ON sequence_skips(hour);
