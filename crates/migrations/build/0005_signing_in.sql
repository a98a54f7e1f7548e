-- What bounds attempts and mails with links (document 4, section 7).

-- Each attempt removes a few that are over, found by their moment.
CREATE INDEX address_attempts_since ON address_attempts(since);

-- One reset waits for a name, however often it is asked for. name_key: a keyed hash of the name, null for other messages.
ALTER TABLE mail_jobs ADD COLUMN name_key TEXT;
CREATE UNIQUE INDEX mail_jobs_name ON mail_jobs(name_key) WHERE name_key IS NOT NULL;

-- The mails with a link of about the last hour, by account. job: the message, which counts once however often it is tried.
CREATE TABLE mailed_links (
    job BIGINT NOT NULL PRIMARY KEY,
    user_id BIGINT NOT NULL REFERENCES users(id),
    kind TEXT NOT NULL,
    at BIGINT NOT NULL
);
CREATE INDEX mailed_links_user ON mailed_links(user_id, kind, at);
-- The message that a link was made for: another try of it replaces the link.
ALTER TABLE link_tokens ADD COLUMN job BIGINT;
