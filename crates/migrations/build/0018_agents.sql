-- Connectors of agents, and the grants by which agents work for people.

ALTER TABLE mcp_connectors ADD COLUMN uuid TEXT NOT NULL DEFAULT '';
ALTER TABLE mcp_connectors ADD COLUMN name_fold {text} NOT NULL DEFAULT '';
ALTER TABLE mcp_connectors ADD COLUMN integration_uuid TEXT NOT NULL DEFAULT '';
ALTER TABLE mcp_connectors ADD COLUMN description TEXT NOT NULL DEFAULT '';
ALTER TABLE mcp_connectors ADD COLUMN is_enabled BIGINT NOT NULL DEFAULT 1;
-- A JSON array of names.
ALTER TABLE mcp_connectors ADD COLUMN allowed_tools TEXT NOT NULL DEFAULT '[]';
ALTER TABLE mcp_connectors ADD COLUMN client_id TEXT NOT NULL DEFAULT '';
-- The SHA-256 of the secret.
ALTER TABLE mcp_connectors ADD COLUMN client_secret TEXT NOT NULL DEFAULT '';
ALTER TABLE mcp_connectors ADD COLUMN created_at BIGINT NOT NULL DEFAULT 0;
ALTER TABLE mcp_connectors ADD COLUMN created_by BIGINT REFERENCES users(id);
ALTER TABLE mcp_connectors ADD COLUMN modified_at BIGINT NOT NULL DEFAULT 0;
ALTER TABLE mcp_connectors ADD COLUMN modified_by BIGINT REFERENCES users(id);
CREATE UNIQUE INDEX mcp_connectors_name ON mcp_connectors(name_fold);
CREATE UNIQUE INDEX mcp_connectors_uuid ON mcp_connectors(uuid);
CREATE UNIQUE INDEX mcp_connectors_client ON mcp_connectors(client_id);
CREATE INDEX mcp_connectors_integration ON mcp_connectors(integration);
CREATE INDEX record_set_connectors_connector ON record_set_connectors(connector);

-- A grant is a session that is an agent's, on this connector. Its tokens are of its own kind.
ALTER TABLE sessions ADD COLUMN connector BIGINT;
CREATE INDEX sessions_connector ON sessions(connector, user_id, id) WHERE connector IS NOT NULL AND ended_at IS NULL;
CREATE INDEX sessions_single_sign_on ON sessions(single_sign_on_id) WHERE connector IS NOT NULL AND ended_at IS NULL;

-- When all sessions of the account were ended last, by which a sign-in is over that has no session yet.
ALTER TABLE users ADD COLUMN sessions_ended_at BIGINT;

-- Codes by their hash: the grant that each begins, and what it is bound to.
CREATE TABLE agent_codes (
    hash TEXT NOT NULL PRIMARY KEY,
    session_id BIGINT NOT NULL REFERENCES sessions(id),
    redirect_uri TEXT NOT NULL,
    challenge TEXT NOT NULL,
    expires_at BIGINT NOT NULL,
    used_at BIGINT
);
CREATE INDEX agent_codes_session ON agent_codes(session_id);
CREATE INDEX agent_codes_expired ON agent_codes(expires_at);

CREATE TABLE agent_refresh_tokens (
    hash TEXT NOT NULL PRIMARY KEY,
    session_id BIGINT NOT NULL REFERENCES sessions(id),
    expires_at BIGINT NOT NULL,
    used_at BIGINT
);
CREATE INDEX agent_refresh_tokens_expired ON agent_refresh_tokens(expires_at);
