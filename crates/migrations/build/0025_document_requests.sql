-- When accounts asked for documents of records, within the last hour or so: an account may ask so often for one record.
CREATE TABLE document_requests (
    id {id},
    requester BIGINT NOT NULL REFERENCES users(id),
    record BIGINT NOT NULL,
    at BIGINT NOT NULL
);
CREATE INDEX document_requests_record ON document_requests(requester, record, at);
CREATE INDEX document_requests_at ON document_requests(requester, at);
