-- On PostgreSQL the row of a counter that many transactions raise at once would be locked until each of them is committed. These
-- transactions write one of several rows here, which are added to the row of counters.
CREATE TABLE counter_slots (
    name TEXT NOT NULL,
    slot BIGINT NOT NULL,
    n BIGINT NOT NULL,
    PRIMARY KEY (name, slot)
);
CREATE VIEW all_counters AS SELECT name, n FROM counters UNION ALL SELECT name, n FROM counter_slots;
