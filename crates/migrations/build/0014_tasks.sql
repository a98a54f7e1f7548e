-- What a completer of tasks sees, and what is done with the answer. It is fixed when its template is made, and stays while the
-- template or a task of it is there.
CREATE TABLE task_forms (
    id {id},
    task_type TEXT NOT NULL,
    -- The class whose records are changed; NULL where none are.
    class_id BIGINT,
    prompt TEXT NOT NULL,
    allow_comment BIGINT NOT NULL,
    approval_required BIGINT NOT NULL,
    -- A JSON array of names.
    approval_conditions TEXT NOT NULL,
    -- JSON
    configuration TEXT NOT NULL,
    -- Those of the configuration, or empty.
    instructions TEXT NOT NULL
);
CREATE INDEX task_forms_class ON task_forms(class_id) WHERE class_id IS NOT NULL;

CREATE TABLE task_templates (
    id {id},
    form BIGINT NOT NULL REFERENCES task_forms(id),
    name TEXT NOT NULL,
    name_fold {text} NOT NULL,
    description TEXT NOT NULL,
    description_fold {text} NOT NULL,
    task_creation TEXT NOT NULL,
    complete_by TEXT NOT NULL,
    complete_by_date TEXT,
    complete_by_time_unit TEXT,
    complete_by_time_value BIGINT,
    expiry TEXT,
    expiry_time_unit TEXT,
    expiry_time_value BIGINT,
    expiry_time_rel_to TEXT,
    expiry_date TEXT,
    expiry_day BIGINT,
    expiry_periodic_day BIGINT,
    expiry_periodic_month BIGINT,
    -- JSON arrays.
    reminders TEXT NOT NULL,
    renewals TEXT NOT NULL,
    -- The class for whose new records it makes tasks.
    automatic_class BIGINT,
    created_at BIGINT NOT NULL,
    created_by BIGINT REFERENCES users(id),
    modified_at BIGINT NOT NULL,
    modified_by BIGINT REFERENCES users(id)
);
CREATE INDEX task_templates_form ON task_templates(form);
CREATE INDEX task_templates_automatic ON task_templates(automatic_class) WHERE automatic_class IS NOT NULL;

-- Whether an automatic template makes tasks for new records of the class. It changes with the version of the class, by which
-- processes know what they have read of it.
ALTER TABLE object_classes ADD COLUMN makes_tasks BIGINT NOT NULL DEFAULT 0;

-- How many tasks were made of a template, in slots that are added up, so that those who make them seldom wait for each other.
CREATE TABLE task_template_counts (
    template BIGINT NOT NULL,
    slot BIGINT NOT NULL,
    n BIGINT NOT NULL,
    last_at BIGINT NOT NULL,
    PRIMARY KEY (template, slot)
);

CREATE TABLE tasks (
    id {id},
    name TEXT NOT NULL,
    name_fold {text} NOT NULL,
    description TEXT NOT NULL,
    -- The template may be gone; its number is not given again.
    template BIGINT NOT NULL,
    form BIGINT NOT NULL REFERENCES task_forms(id),
    record BIGINT,
    -- The class of the record, and its number there.
    class_id BIGINT,
    record_n BIGINT,
    status TEXT NOT NULL,
    due_at BIGINT,
    expires_at BIGINT,
    completed_at BIGINT,
    completed_by BIGINT REFERENCES users(id),
    -- JSON
    response TEXT,
    comment TEXT,
    approval_at BIGINT,
    approval_by BIGINT REFERENCES users(id),
    approval_condition TEXT,
    approval_comment TEXT,
    -- To whom it is assigned, as in task_audiences; empty: to nobody.
    audience TEXT NOT NULL,
    -- What the template said when the task was made, as JSON: expiry after the completion, reminders, renewals.
    plan TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    created_by BIGINT REFERENCES users(id),
    modified_at BIGINT NOT NULL,
    modified_by BIGINT REFERENCES users(id)
);
CREATE INDEX tasks_record ON tasks(record) WHERE record IS NOT NULL;
CREATE INDEX tasks_class ON tasks(class_id, record_n);
CREATE INDEX tasks_creator ON tasks(created_by) WHERE record IS NULL;
CREATE INDEX tasks_template ON tasks(template, record);
CREATE INDEX tasks_form ON tasks(form);
CREATE INDEX tasks_status ON tasks(status, due_at {nulls_first}, id);

-- Users, and groups as their negative ids. What follows the principal is that of the task, so that an index has it.
CREATE TABLE task_assignees (
    task BIGINT NOT NULL,
    principal BIGINT NOT NULL,
    status TEXT NOT NULL,
    due_at BIGINT,
    class_id BIGINT,
    record_n BIGINT,
    PRIMARY KEY (task, principal)
);
CREATE INDEX task_assignees_principal ON task_assignees(principal, status, due_at {nulls_first}, task, class_id, record_n);

-- An audience is a set of principals to whom tasks are assigned together.
CREATE TABLE task_audiences (
    principal BIGINT NOT NULL,
    audience TEXT NOT NULL,
    PRIMARY KEY (principal, audience)
);
-- How many tasks of an audience (empty: all tasks), a class (0: without a record) and a status there are, in slots that are
-- added up.
CREATE TABLE task_counts (
    audience TEXT NOT NULL,
    class_id BIGINT NOT NULL,
    status TEXT NOT NULL,
    slot BIGINT NOT NULL,
    n BIGINT NOT NULL,
    PRIMARY KEY (audience, class_id, status, slot)
);

-- By these versions a process knows that the records of a block, 4,096 of a class in the order of their numbers, have other tasks.
CREATE TABLE task_blocks (
    class_id BIGINT NOT NULL,
    block BIGINT NOT NULL,
    slot BIGINT NOT NULL,
    version BIGINT NOT NULL,
    PRIMARY KEY (class_id, block, slot)
);

CREATE TABLE task_log (
    id {id},
    task BIGINT NOT NULL,
    at BIGINT NOT NULL,
    by_user BIGINT REFERENCES users(id),
    source_type TEXT NOT NULL,
    action TEXT NOT NULL,
    changes TEXT NOT NULL
);
CREATE INDEX task_log_task ON task_log(task, id);

-- What is to happen to a task by itself, and when: expire, remind, renew; n counts the reminders or renewals of its plan. What
-- is done stays, so that it is not done again for the same moment.
CREATE TABLE task_moments (
    task BIGINT NOT NULL,
    kind TEXT NOT NULL,
    n BIGINT NOT NULL,
    at BIGINT NOT NULL,
    is_done BIGINT NOT NULL,
    -- The last user who has his mail, while a reminder to very many is under way.
    reminded_to BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (task, kind, n)
);
CREATE INDEX task_moments_at ON task_moments(at, task) WHERE is_done = 0;

-- The links by which one-time accounts come to their tasks.
CREATE TABLE task_links (
    hash TEXT NOT NULL PRIMARY KEY,
    task BIGINT NOT NULL,
    user_id BIGINT NOT NULL REFERENCES users(id),
    created_at BIGINT NOT NULL,
    -- The job of its mail.
    job BIGINT NOT NULL
);
CREATE INDEX task_links_task ON task_links(task, user_id);
CREATE INDEX task_links_user ON task_links(user_id);
-- The task to which a session of such a link is narrowed.
ALTER TABLE sessions ADD COLUMN task BIGINT;
CREATE INDEX sessions_task ON sessions(task) WHERE task IS NOT NULL;

-- The files that the response of a task names. Their record is 0 unless a record has them, too: processes of the former
-- version, which know no tasks, keep them for that.
ALTER TABLE files ADD COLUMN task BIGINT;
CREATE INDEX files_task ON files(task) WHERE task IS NOT NULL;
DROP INDEX files_unheld;
CREATE INDEX files_unheld ON files(id)
    WHERE kept_until IS NULL AND is_public = 0 AND record IS NULL AND template IS NULL AND run IS NULL AND task IS NULL;
