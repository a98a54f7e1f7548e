-- Integrations, the deliveries of webhooks, and the copies of documents.

-- Raised when others want to hear of events of records than before.
INSERT INTO versions(name, n) VALUES ('event_subscribers', 1);

CREATE TABLE integrations (
    id {id},
    uuid TEXT NOT NULL,
    type TEXT NOT NULL,
    name TEXT NOT NULL,
    name_fold {text} NOT NULL,
    description TEXT NOT NULL,
    is_enabled BIGINT NOT NULL,
    authentication_object BIGINT REFERENCES authentication_objects(id),
    class_id BIGINT REFERENCES object_classes(id),
    -- Of copies of documents.
    folder TEXT NOT NULL DEFAULT '',
    -- The field of the class; no reference, since fields go in pages.
    field_id BIGINT,
    dedupe BIGINT NOT NULL DEFAULT 0,
    -- Of agents: a JSON array.
    redirect_uris TEXT NOT NULL DEFAULT '[]',
    -- Of webhooks.
    url TEXT NOT NULL DEFAULT '',
    secret TEXT,
    secret_row TEXT NOT NULL DEFAULT '',
    -- A JSON array of types.
    events TEXT NOT NULL DEFAULT '[]',
    created_at BIGINT NOT NULL,
    created_by BIGINT REFERENCES users(id),
    modified_at BIGINT NOT NULL,
    modified_by BIGINT REFERENCES users(id)
);
CREATE UNIQUE INDEX integrations_uuid ON integrations(uuid);
CREATE UNIQUE INDEX integrations_name ON integrations(name_fold);
CREATE INDEX integrations_class ON integrations(class_id);
CREATE INDEX integrations_authentication_object ON integrations(authentication_object);

-- The classes of an integration of agents.
CREATE TABLE integration_classes (
    integration BIGINT NOT NULL REFERENCES integrations(id),
    class_id BIGINT NOT NULL REFERENCES object_classes(id),
    PRIMARY KEY (integration, class_id)
);
CREATE INDEX integration_classes_class ON integration_classes(class_id);

-- A row for each webhook: who sends its deliveries now, and until when it pauses.
CREATE TABLE webhook_queues (
    integration BIGINT NOT NULL PRIMARY KEY,
    holder TEXT NOT NULL DEFAULT '',
    -- Until when the holder has it; of a queue without a holder, when it was last held.
    held_until BIGINT NOT NULL DEFAULT 0,
    -- How many attempts in a row had no answer.
    failures BIGINT NOT NULL DEFAULT 0,
    not_before BIGINT NOT NULL DEFAULT 0
);

-- What waiting deliveries send, once for all webhooks.
CREATE TABLE webhook_events (
    event_id TEXT NOT NULL PRIMARY KEY,
    created_at BIGINT NOT NULL,
    body TEXT NOT NULL
);

CREATE TABLE webhook_deliveries (
    id {id},
    webhook BIGINT NOT NULL,
    event_id TEXT NOT NULL,
    event_type TEXT NOT NULL,
    -- The bytes of what is sent.
    size BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    last_attempt_at BIGINT,
    attempts BIGINT NOT NULL DEFAULT 0,
    status TEXT NOT NULL DEFAULT 'pending',
    response_status BIGINT,
    -- 0 before the first attempt; -1 of a test, which is sent by a webhook that is disabled, too.
    next_at BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX webhook_deliveries_webhook ON webhook_deliveries(webhook, id);
CREATE INDEX webhook_deliveries_pending ON webhook_deliveries(webhook, next_at, id) WHERE status = 'pending';
CREATE INDEX webhook_deliveries_event ON webhook_deliveries(event_id) WHERE status = 'pending';

-- Files that were put into the field of an integration, each with the name of its copy.
CREATE TABLE document_copies (
    id {id},
    integration BIGINT NOT NULL,
    record BIGINT NOT NULL,
    file BIGINT NOT NULL,
    -- Below the place of the build; null before it is chosen.
    path TEXT,
    -- The SHA-256 of the content; null before it is read.
    content TEXT,
    created_at BIGINT NOT NULL,
    copied_at BIGINT
);
CREATE UNIQUE INDEX document_copies_file ON document_copies(integration, record, file);
CREATE UNIQUE INDEX document_copies_path ON document_copies(path) WHERE path IS NOT NULL;
CREATE INDEX document_copies_content ON document_copies(integration, record, content);
