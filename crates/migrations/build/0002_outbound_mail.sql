-- Company details, outbound mail settings and authentication objects (document 1; document 4, section 5).

-- client_secret is sealed; row_key is the random key of the row that its seal is bound to.
CREATE TABLE authentication_objects (
    id {id},
    name TEXT NOT NULL,
    name_fold {text} NOT NULL,
    provider TEXT NOT NULL,
    client_id TEXT NOT NULL,
    client_secret TEXT,
    row_key TEXT NOT NULL,
    token_url TEXT NOT NULL,
    scope TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    created_by BIGINT REFERENCES users(id),
    modified_at BIGINT NOT NULL,
    modified_by BIGINT REFERENCES users(id)
);
CREATE UNIQUE INDEX authentication_objects_name ON authentication_objects(name_fold);

CREATE TABLE company_details (
    id BIGINT NOT NULL PRIMARY KEY,
    admin_first_name TEXT NOT NULL,
    admin_last_name TEXT NOT NULL,
    admin_email_address TEXT NOT NULL,
    admin_phone_number TEXT NOT NULL,
    admin_job_title TEXT NOT NULL,
    admin_email_signature TEXT NOT NULL,
    modified_at BIGINT NOT NULL DEFAULT 0,
    modified_by BIGINT REFERENCES users(id)
);
INSERT INTO company_details(id, admin_first_name, admin_last_name, admin_email_address, admin_phone_number,
    admin_job_title, admin_email_signature)
VALUES (1, '', '', '', '', '', '');

-- Without a host nothing has been set yet. password is sealed, as client_secret above.
CREATE TABLE smtp_settings (
    id BIGINT NOT NULL PRIMARY KEY,
    username TEXT NOT NULL,
    port BIGINT NOT NULL,
    tls BIGINT NOT NULL,
    host TEXT NOT NULL,
    from_email TEXT NOT NULL,
    failure_email TEXT NOT NULL,
    authorization_method TEXT NOT NULL,
    authentication_object BIGINT REFERENCES authentication_objects(id),
    password TEXT,
    row_key TEXT NOT NULL,
    modified_at BIGINT NOT NULL DEFAULT 0,
    modified_by BIGINT REFERENCES users(id)
);
INSERT INTO smtp_settings(id, username, port, tls, host, from_email, failure_email, authorization_method, row_key)
VALUES (1, '', 25, 0, '', '', '', 'username_and_password', '');

-- Until when a process is sending a message; one that died leaves it to the others then.
ALTER TABLE mail_jobs ADD COLUMN claimed_until BIGINT;
