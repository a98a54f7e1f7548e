-- Custom components, which forms name. Their endpoints are still to come.
CREATE TABLE custom_components (
    id {id},
    name TEXT NOT NULL,
    is_enabled BIGINT NOT NULL
);

-- Standalone forms of classes.
CREATE TABLE object_class_forms (
    id {id},
    uuid TEXT NOT NULL,
    class_id BIGINT NOT NULL REFERENCES object_classes(id),
    name TEXT NOT NULL,
    name_fold {text} NOT NULL,
    type TEXT NOT NULL,
    is_enabled BIGINT NOT NULL,
    -- JSON, at most 1 MiB.
    configuration TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    created_by BIGINT REFERENCES users(id),
    modified_at BIGINT NOT NULL,
    modified_by BIGINT REFERENCES users(id)
);
CREATE UNIQUE INDEX object_class_forms_uuid ON object_class_forms(uuid);
CREATE UNIQUE INDEX object_class_forms_name ON object_class_forms(class_id, name_fold);

CREATE TABLE object_class_form_components (
    form BIGINT NOT NULL REFERENCES object_class_forms(id),
    component BIGINT NOT NULL REFERENCES custom_components(id),
    PRIMARY KEY (form, component)
);
CREATE INDEX object_class_form_components_component ON object_class_form_components(component);
