//! `config.json`, the description of a component in its repository (`docs/reference/custom-components.md`).

use resource::items::{accept_fields, accept_items, item, object_json, schema_of};
use resource::{
    CheckedBody, CheckedValue, Errors, Field, FieldKey, FieldKind, JsonBody, JsonValue, Resource, SentObject, message,
    options,
};
use serde_json::{Value as Json, json};
use std::sync::LazyLock;

/// The file that describes the component.
pub const CONFIG: &str = "config.json";
/// The first page of the component.
pub const INDEX: &str = "index.html";

/// The maximum length of the file, in characters.
pub const MAX_CHARACTERS: usize = 100_000;
/// The maximum size of the file, in bytes: that of [`MAX_CHARACTERS`] in UTF-8.
pub const MAX_BYTES: u64 = 4 * MAX_CHARACTERS as u64;
/// The maximum length of a text in it, in characters.
pub const MAX_TEXT: usize = 255;
/// The maximum length of an address in it, in characters.
pub const MAX_URL: usize = 2048;
const MAX_PARAMETERS: usize = 500;
const MAX_OPTIONS: usize = 1000;

static VERSION: FieldKey<String> = FieldKey::new("version");
static PUBLISHER: FieldKey<String> = FieldKey::new("publisher");
static PUBLISHER_URL: FieldKey<String> = FieldKey::new("publisher_url");
static LOGO: FieldKey<String> = FieldKey::new("logo");
const PARAMETERS: &str = "parameters";
static PARAMETER_OPTIONS: FieldKey<Json> = FieldKey::new("parameter_options");

const PARAMETER_TYPES: &[(&str, &str)] =
    &[("string", "String"), ("integer", "Integer"), ("boolean", "Boolean"), ("enum", "Enum")];

static DECLARATION: LazyLock<Resource> = LazyLock::new(|| {
    let fields = [
        Field::new("name", FieldKind::text(MAX_TEXT)).nullable(),
        VERSION.text(MAX_TEXT).required(),
        PUBLISHER.text(MAX_TEXT).required(),
        PUBLISHER_URL.declare(FieldKind::Url { max: MAX_URL }).nullable(),
        LOGO.declare(FieldKind::Url { max: MAX_URL }).nullable(),
    ];
    item("CustomComponentConfiguration", fields)
});

static PARAMETER: LazyLock<Resource> = LazyLock::new(|| {
    let fields = [
        Field::new("parameter_description", FieldKind::text(1000)).default(""),
        Field::new("parameter_name", FieldKind::text(MAX_TEXT)).required().example("zoom"),
        Field::new("parameter_type", FieldKind::choices(PARAMETER_TYPES)).required().example("integer"),
        Field::new("parameter_limit", FieldKind::Integer { min: i64::MIN, max: i64::MAX })
            .nullable()
            .default(CheckedValue::Null),
        // Front ends define the items, so only the type of the list is checked here.
        PARAMETER_OPTIONS
            .declare(FieldKind::List)
            .schema(|| json!({"type": "array", "items": {}}))
            .stored_by_resource(),
    ];
    item("CustomComponentParameter", fields)
});

/// Returns the schema of `parameters` in OpenAPI.
pub fn parameters_schema() -> Json {
    json!({"type": "array", "items": schema_of(&PARAMETER)})
}

/// Returns the entry of `parameters` in OPTIONS.
pub fn described_parameters() -> Json {
    options::details(&PARAMETER)["schema"].take()
}

/// The content of a configuration.
#[derive(Debug, PartialEq)]
pub struct Config {
    pub version: String,
    pub publisher: String,
    pub publisher_url: Option<String>,
    pub logo: Option<String>,
    pub parameters: Json,
}

/// Reads the bytes of a configuration.
pub fn read(bytes: Vec<u8>) -> Result<Config, Errors> {
    let wrong = |text: String| Err(Errors::single(CONFIG, text));
    // A byte order mark is not part of the text.
    let bytes = match bytes.strip_prefix(b"\xef\xbb\xbf") {
        Some(rest) => rest.to_vec(),
        None => bytes,
    };
    if bytes.iter().filter(|byte| **byte & 0xc0 != 0x80).count() > MAX_CHARACTERS {
        return wrong(message::too_long(MAX_CHARACTERS));
    }
    let Ok(body) = JsonBody::parse(bytes, MAX_CHARACTERS) else { return wrong("Value must be valid JSON.".to_owned()) };
    let is_known = |name: &str| name == PARAMETERS || DECLARATION.field(name).is_some();
    let Some(object) = body.as_value().as_object(is_known) else {
        return wrong(message::not_an_object(body.as_value().type_name()));
    };
    let CheckedBody { changes, mut errors } = accept_fields(&DECLARATION, &object);
    let parameters = object.get(PARAMETERS).map_or_else(Vec::new, |list| {
        accept_items(&PARAMETER, PARAMETERS, list, MAX_PARAMETERS, &mut errors, accept_parameter)
    });
    errors.refuse()?;
    let url = |key: &FieldKey<String>| changes.get(key).filter(|url| !url.is_empty());
    Ok(Config {
        version: changes.get(&VERSION).unwrap_or_default(),
        publisher: changes.get(&PUBLISHER).unwrap_or_default(),
        publisher_url: url(&PUBLISHER_URL),
        logo: url(&LOGO),
        parameters: parameters.iter().map(|parameter| object_json(&PARAMETER, parameter)).collect(),
    })
}

fn accept_parameter(resource: &Resource, parameter: &SentObject<'_>) -> CheckedBody {
    let other_members = parameter.clone().filter_members(|name| name != PARAMETER_OPTIONS.name());
    let mut accepted = accept_fields(resource, &other_members);
    match accept_options(parameter.get(PARAMETER_OPTIONS.name())) {
        Ok(options) => accepted.changes.set(&PARAMETER_OPTIONS, CheckedValue::Json(options)),
        Err(wrong) => accepted.errors.add(PARAMETER_OPTIONS.name(), wrong),
    }
    accepted
}

fn accept_options(value: Option<JsonValue<'_>>) -> Result<Json, String> {
    let Some(value) = value.filter(|value| !value.is_null()) else { return Ok(json!([])) };
    match value.as_list(0) {
        None => Err(message::not_a_list(value.type_name())),
        Some((_, count)) if count > MAX_OPTIONS => Err(message::too_many(MAX_OPTIONS)),
        // The database would refuse a NUL.
        Some(_) if value.canonical(resource::sent::MAX_DEPTH).is_err() => Err(message::VALUE.to_owned()),
        Some(_) => Ok(value.to_json()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expect_refusal(config: Json) -> Json {
        read(config.to_string().into_bytes()).unwrap_err().to_json()
    }

    #[test]
    fn a_configuration_says_what_a_component_is() {
        let config = json!({
            "name": "Map", "version": " 1.2 ", "publisher": "Maps Ltd", "publisher_url": "https://maps.example",
            "logo": "https://maps.example/logo.svg", "planet": 1,
            "parameters": [
                {"parameter_name": "zoom", "parameter_type": "integer", "parameter_limit": 20},
                {"parameter_name": "style", "parameter_type": "enum", "parameter_options": ["day", {"value": "night"}],
                 "parameter_description": "How it looks"},
            ],
        });
        let expected = Config {
            version: "1.2".to_owned(),
            publisher: "Maps Ltd".to_owned(),
            publisher_url: Some("https://maps.example".to_owned()),
            logo: Some("https://maps.example/logo.svg".to_owned()),
            parameters: json!([
                {"parameter_description": "", "parameter_name": "zoom", "parameter_type": "integer",
                 "parameter_limit": 20, "parameter_options": []},
                {"parameter_description": "How it looks", "parameter_name": "style", "parameter_type": "enum",
                 "parameter_limit": null, "parameter_options": ["day", {"value": "night"}]},
            ]),
        };
        assert_eq!(read(config.to_string().into_bytes()), Ok(expected));
        let least = read(b"\xef\xbb\xbf{\"version\": \"1\", \"publisher\": \"P\"}".to_vec()).unwrap();
        assert_eq!((least.publisher_url, least.logo, least.parameters), (None, None, json!([])));
    }

    #[test]
    fn errors_are_reported_by_attribute() {
        let config = |text: &str| read(text.as_bytes().to_vec()).unwrap_err().to_json();
        assert_eq!(config("{"), json!({"config.json": ["Value must be valid JSON."]}));
        assert_eq!(
            read(vec![b'"', 0xff, b'"']).unwrap_err().to_json(),
            json!({"config.json": ["Value must be valid JSON."]})
        );
        assert_eq!(config("[]"), json!({"config.json": ["Invalid data. Expected a dictionary, but got list."]}));
        let long = config(&format!("{{\"name\": \"{}\"}}", "ä".repeat(99_990)));
        assert_eq!(long, json!({"config.json": ["Ensure this field has no more than 100000 characters."]}));
        assert_eq!(
            expect_refusal(json!({})),
            json!({"version": ["This field is required."], "publisher": ["This field is required."]})
        );
        assert_eq!(
            expect_refusal(json!({
                "version": " ", "publisher": 5, "publisher_url": "maps", "logo": "javascript:alert(1)",
                "parameters": [
                    5,
                    {},
                    {"parameter_name": "", "parameter_type": "float", "parameter_limit": "5", "parameter_options": "a"},
                    {"parameter_name": "a", "parameter_type": "enum", "parameter_options": ["\u{0}"]},
                ],
            })),
            json!({
                "version": ["This field may not be blank."],
                "publisher": ["Not a valid string."],
                "publisher_url": ["Enter a valid URL."],
                "logo": ["Enter a valid URL."],
                "parameters": {
                    "0": ["Invalid data. Expected a dictionary, but got int."],
                    "1": {"parameter_name": ["This field is required."], "parameter_type": ["This field is required."]},
                    "2": {
                        "parameter_name": ["This field may not be blank."],
                        "parameter_type": ["float is not a valid choice."],
                        "parameter_limit": ["A valid integer is required."],
                        "parameter_options": ["Expected a list of items but got type str."],
                    },
                    "3": {"parameter_options": ["Enter a valid value."]},
                },
            })
        );
        let errors_of =
            |parameters: Json| expect_refusal(json!({"version": "1", "publisher": "P", "parameters": parameters}));
        assert_eq!(errors_of(json!("a")), json!({"parameters": ["Expected a list of items but got type str."]}));
        assert_eq!(errors_of(json!(null)), json!({"parameters": ["This field may not be null."]}));
        assert_eq!(errors_of(json!(vec![{}; 501])), json!({"parameters": ["Up to 500 items allowed."]}));
    }
}
