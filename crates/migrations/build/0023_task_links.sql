-- When somebody last had new links of a task sent.
ALTER TABLE tasks ADD COLUMN links_sent_at BIGINT;
-- When each link was or will be mailed to an address, for the last hour and the time to come. The address is a hash.
CREATE TABLE task_link_mails (
    -- The job of the mail.
    job BIGINT NOT NULL PRIMARY KEY,
    address TEXT NOT NULL,
    at BIGINT NOT NULL
);
CREATE INDEX task_link_mails_address ON task_link_mails(address, at);
CREATE INDEX task_link_mails_at ON task_link_mails(at);
