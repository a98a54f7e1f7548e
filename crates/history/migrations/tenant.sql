-- The events of one tenant. Ids are 16 bytes, times are microseconds since 1970.
--
-- Each index has the order of the lists, so that a page is read without sorting. The columns after that order let
-- conditions on them be checked in the index, without reading the rows. The tables of counts answer `total_count` and
-- `filtered_count` without counting rows; they change in the transaction of the events.
CREATE TABLE history_events (
    id {blob} NOT NULL PRIMARY KEY,
    at BIGINT NOT NULL,
    rank BIGINT NOT NULL,
    event_type BIGINT NOT NULL,
    record_id BIGINT NOT NULL,
    source_id BIGINT NOT NULL,
    source_type BIGINT NOT NULL,
    source_name TEXT,
    source_info TEXT NOT NULL,
    data TEXT NOT NULL
);
CREATE INDEX history_events_newest ON history_events(at, rank, id, event_type, source_type, source_id);
CREATE INDEX history_events_of_record ON history_events(record_id, at, rank, id);
CREATE INDEX history_events_of_type ON history_events(event_type, at, rank, id);
CREATE INDEX history_events_of_source ON history_events(source_id, at, rank, id, event_type, source_type);
CREATE TABLE history_event_counts (
    event_type BIGINT NOT NULL,
    source_type BIGINT NOT NULL,
    n BIGINT NOT NULL,
    PRIMARY KEY (event_type, source_type)
);

CREATE TABLE system_events (
    id {blob} NOT NULL PRIMARY KEY,
    at BIGINT NOT NULL,
    category BIGINT NOT NULL,
    event_type BIGINT NOT NULL,
    source_id BIGINT NOT NULL,
    source_type BIGINT NOT NULL,
    source_info TEXT NOT NULL,
    source_ip TEXT NOT NULL,
    data TEXT NOT NULL
);
CREATE INDEX system_events_newest ON system_events(at, id, event_type, source_id);
CREATE INDEX system_events_of_type ON system_events(event_type, at, id);
CREATE INDEX system_events_of_source ON system_events(source_id, at, id, event_type);
CREATE TABLE system_event_counts (
    category BIGINT NOT NULL,
    event_type BIGINT NOT NULL,
    n BIGINT NOT NULL,
    PRIMARY KEY (category, event_type)
);
