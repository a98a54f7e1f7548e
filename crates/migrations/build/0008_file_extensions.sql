-- The file extensions that may be uploaded, a JSON array, where a build has a list of its own: one row at most.
CREATE TABLE file_extensions (
    id BIGINT NOT NULL PRIMARY KEY,
    allowed TEXT NOT NULL
);
