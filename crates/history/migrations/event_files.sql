-- The files that events `document_generated` name. A stored file that is not among them is removed in the end.
CREATE TABLE event_files (
    file_id {blob} NOT NULL PRIMARY KEY
);
