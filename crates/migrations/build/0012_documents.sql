-- Document templates of classes, and the runs that fill them from records.
CREATE TABLE document_templates (
    id {id},
    class_id BIGINT NOT NULL REFERENCES object_classes(id),
    name TEXT NOT NULL,
    name_fold {text} NOT NULL,
    description TEXT NOT NULL,
    file BIGINT NOT NULL REFERENCES files(id),
    -- The name of the file without its extension.
    template_file_name TEXT NOT NULL,
    template_file_name_fold {text} NOT NULL,
    allow_on_demand_generation BIGINT NOT NULL,
    warning TEXT NOT NULL,
    warning_fold {text} NOT NULL,
    -- A JSON array of the tags, by which the warning follows changes of classes.
    merge_fields TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    created_by BIGINT REFERENCES users(id),
    modified_at BIGINT NOT NULL,
    modified_by BIGINT REFERENCES users(id)
);
CREATE UNIQUE INDEX document_templates_name ON document_templates(class_id, name_fold);

-- The other classes that the merge fields of a template name.
CREATE TABLE document_template_classes (
    template BIGINT NOT NULL,
    class_id BIGINT NOT NULL,
    PRIMARY KEY (template, class_id)
);
CREATE INDEX document_template_classes_class ON document_template_classes(class_id, template);

CREATE TABLE document_runs (
    id {id},
    record BIGINT NOT NULL,
    template BIGINT NOT NULL,
    -- The field into which the file is put.
    field BIGINT,
    requester BIGINT NOT NULL REFERENCES users(id),
    status TEXT NOT NULL,
    error_message TEXT NOT NULL,
    file BIGINT,
    job BIGINT,
    -- The related records that the file shows: a JSON object of ids by class.
    shown TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    ended_at BIGINT
);
CREATE INDEX document_runs_record ON document_runs(record, template, id);
CREATE INDEX document_runs_template ON document_runs(template, id);
CREATE UNIQUE INDEX document_runs_processing ON document_runs(record, template) WHERE status = 'processing';
