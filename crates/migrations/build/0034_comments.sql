-- What people say about a record or a task: one of the two is set. A record that was deleted may come back with its comments, so
-- it is not referenced; the comments go when it is removed for good.
CREATE TABLE comments (
    id {id},
    record BIGINT,
    task BIGINT REFERENCES tasks(id) ON DELETE CASCADE,
    -- NULL after its deletion.
    text TEXT,
    is_internal BIGINT NOT NULL,
    reply_to BIGINT,
    source_type TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    created_by BIGINT,
    edited_at BIGINT,
    is_deleted BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX comments_record ON comments(record) WHERE record IS NOT NULL;
CREATE INDEX comments_task ON comments(task) WHERE task IS NOT NULL;
CREATE INDEX comments_writer ON comments(created_by, created_at);
CREATE TABLE comment_mentions (
    comment_id BIGINT NOT NULL REFERENCES comments(id) ON DELETE CASCADE,
    -- The place in the order of the text, from 0.
    place BIGINT NOT NULL,
    user_id BIGINT NOT NULL,
    PRIMARY KEY (comment_id, place)
);
