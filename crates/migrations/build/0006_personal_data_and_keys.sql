-- What is taken out of the sessions of anonymized accounts is found by this, in ended ones too.
CREATE INDEX sessions_all_of_user ON sessions(user_id, id);

-- What is true of this build. key: the fingerprint of the key with which `chancery keys rotate` last sealed its secrets.
CREATE TABLE settings (
    name TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
);
