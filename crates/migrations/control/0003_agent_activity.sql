-- What agents did in all builds, by their uids: calls of tools, also those that only read. It is kept apart from the databases of builds, whose
-- kept answers end with each write.
CREATE TABLE agent_activity (
    id {id},
    build TEXT NOT NULL,
    connector BIGINT NOT NULL,
    at BIGINT NOT NULL,
    user_id BIGINT NOT NULL,
    client TEXT NOT NULL,
    tool TEXT NOT NULL,
    object_class BIGINT,
    record_id BIGINT,
    outcome TEXT NOT NULL,
    -- The number of a line that was noted in the build's database first.
    write_id BIGINT
);
CREATE UNIQUE INDEX agent_activity_write ON agent_activity(build, write_id) WHERE write_id IS NOT NULL;
CREATE INDEX agent_activity_of ON agent_activity(build, connector, at, id);
CREATE INDEX agent_activity_at ON agent_activity(build, at, id);
