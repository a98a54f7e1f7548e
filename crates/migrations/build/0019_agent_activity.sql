-- What agents have written, noted in the transaction of the write, until it stands beside what they have read.
CREATE TABLE agent_writes (
    id {id},
    connector BIGINT NOT NULL,
    at BIGINT NOT NULL,
    user_id BIGINT NOT NULL,
    client TEXT NOT NULL,
    tool TEXT NOT NULL,
    object_class BIGINT,
    record_id BIGINT,
    outcome TEXT NOT NULL
);
