-- Equal reads of a minute are one line. A line of a write, or of a former version, stands for one call.
ALTER TABLE agent_activity ADD COLUMN calls BIGINT NOT NULL DEFAULT 1;
-- Identifies equal reads, their minute included; null: the line stands for one call.
ALTER TABLE agent_activity ADD COLUMN read_key TEXT;
CREATE UNIQUE INDEX agent_activity_read ON agent_activity(build, read_key) WHERE read_key IS NOT NULL;
CREATE INDEX agent_activity_user ON agent_activity(build, user_id, client);

-- Calls of grants within their running minute, as far as processes have stored them.
CREATE TABLE agent_calls (
    build TEXT NOT NULL,
    session_id BIGINT NOT NULL,
    since BIGINT NOT NULL,
    calls BIGINT NOT NULL,
    PRIMARY KEY (build, session_id)
);
