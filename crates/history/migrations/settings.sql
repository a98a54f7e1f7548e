-- What the service knows of itself. `id` tells it from every other history service; a copy made by `chancery backup` has
-- none until it is opened.
CREATE TABLE settings (
    name {text} NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
);
