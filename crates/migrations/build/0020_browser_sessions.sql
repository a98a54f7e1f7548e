-- The cookies of browsers by their hash: the session that each opens, and whether the browser keeps it when it is closed.
CREATE TABLE browser_sessions (
    hash TEXT NOT NULL PRIMARY KEY,
    session_id BIGINT NOT NULL REFERENCES sessions(id),
    is_kept BIGINT NOT NULL
);
CREATE INDEX browser_sessions_session ON browser_sessions(session_id);
