-- UI configurations: what front ends keep, by component. What they name leaves them when it is deleted, by whatever process.
CREATE TABLE ui_configs (
    id {id},
    -- In lower case.
    component TEXT NOT NULL,
    -- JSON as it was sent, at most 65,000 characters.
    content TEXT NOT NULL
);
CREATE UNIQUE INDEX ui_configs_component ON ui_configs(component);

CREATE TABLE ui_config_components (
    ui_config BIGINT NOT NULL REFERENCES ui_configs(id),
    component BIGINT NOT NULL REFERENCES custom_components(id) ON DELETE CASCADE,
    PRIMARY KEY (ui_config, component)
);
CREATE INDEX ui_config_components_component ON ui_config_components(component);

-- The fields of classes into which a component uploads, in the order in which they were sent.
CREATE TABLE ui_config_uploads (
    ui_config BIGINT NOT NULL REFERENCES ui_configs(id),
    place BIGINT NOT NULL,
    object_class BIGINT NOT NULL REFERENCES object_classes(id) ON DELETE CASCADE,
    class_field BIGINT NOT NULL REFERENCES object_class_fields(id) ON DELETE CASCADE,
    PRIMARY KEY (ui_config, place)
);
CREATE INDEX ui_config_uploads_class ON ui_config_uploads(object_class);
CREATE INDEX ui_config_uploads_field ON ui_config_uploads(class_field);

-- What a user's front end keeps for him.
CREATE TABLE user_preferences (
    id {id},
    user_id BIGINT NOT NULL REFERENCES users(id),
    key {text} NOT NULL,
    -- JSON, at most 64 KiB.
    value TEXT NOT NULL,
    modified_at BIGINT NOT NULL
);
CREATE UNIQUE INDEX user_preferences_key ON user_preferences(user_id, key);
