-- Texts are compared in Unicode form NFC, words without marks. What older versions stored in other forms is brought to these
-- in passes over the names and the records of a build (platform/src/text_forms.rs).
ALTER TABLE object_class_fields ADD COLUMN unique_in_nfc BIGINT NOT NULL DEFAULT 0;
CREATE TABLE text_passes (
    n BIGINT NOT NULL PRIMARY KEY,
    -- The earliest moment of the next step.
    due_at BIGINT NOT NULL,
    -- Records that were changed before this moment are left out.
    changed_since BIGINT NOT NULL,
    -- The class of the next step: 0 before the names, -1 behind all classes.
    class_id BIGINT NOT NULL,
    -- The record of the class, or behind all classes the field, after which the next step begins.
    after_n BIGINT NOT NULL
);
