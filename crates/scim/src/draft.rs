//! The attributes of a user that a directory writes, and their changes by PUT and PATCH (RFC 7644, section 3.5).
//!
//! Unknown attributes are ignored, since directories send many of them. Values of the wrong type are refused.

use crate::error::{bad_request, invalid_value};
use crate::filter::{self, FilterValue, boolean};
use kit::refusal::Refusal;
use resource::message;
use serde_json::{Map, Value as Json};
use std::collections::BTreeMap;

pub const CORE: &str = "urn:ietf:params:scim:schemas:core:2.0:User";
pub const ENTERPRISE: &str = "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User";
/// The maximum length of an `externalId`, in characters.
pub const MAX_EXTERNAL_ID: usize = 255;

/// An attribute with a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Attribute {
    UserName,
    GivenName,
    FamilyName,
    Title,
    WorkPhone,
    MobilePhone,
    TimeZone,
    Organization,
    UserType,
    ExternalId,
}

use Attribute::{
    ExternalId, FamilyName, GivenName, MobilePhone, Organization, TimeZone, Title, UserName, UserType, WorkPhone,
};

impl Attribute {
    /// Returns the attribute with a path in lower case.
    fn parse(path: &str) -> Option<Attribute> {
        Some(match path {
            "username" => UserName,
            "name.givenname" => GivenName,
            "name.familyname" => FamilyName,
            "title" => Title,
            "timezone" => TimeZone,
            "usertype" => UserType,
            "externalid" => ExternalId,
            _ => return None,
        })
    }

    /// Returns the field of a user; `None` for the id of the directory.
    fn field(self) -> Option<&'static str> {
        Some(match self {
            UserName => "username",
            GivenName => "first_name",
            FamilyName => "last_name",
            Title => "job_title",
            WorkPhone => "phone",
            MobilePhone => "mobile",
            TimeZone => "timezone",
            Organization => "company_name",
            UserType => "account_type",
            ExternalId => return None,
        })
    }
}

/// The writable attributes of a user. A missing text has its default.
#[derive(Clone, Debug, PartialEq)]
pub struct UserDraft {
    pub texts: BTreeMap<Attribute, String>,
    pub is_active: bool,
}

impl Default for UserDraft {
    fn default() -> UserDraft {
        UserDraft { texts: BTreeMap::new(), is_active: true }
    }
}

/// The kind of an operation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Operation {
    Add,
    Replace,
    Remove,
}

impl UserDraft {
    /// Reads a whole user. `userName` is required.
    pub fn from_resource(resource: &Json) -> Result<UserDraft, Refusal> {
        let mut draft = UserDraft::default();
        draft.assign_members(Operation::Replace, "", resource)?;
        if !draft.texts.contains_key(&UserName) {
            return Err(invalid_value("userName", message::REQUIRED));
        }
        Ok(draft)
    }

    /// Carries out an operation of a PATCH.
    pub fn apply(&mut self, operation: Operation, path: Option<&str>, value: Option<&Json>) -> Result<(), Refusal> {
        let value = value_of(operation, path, value)?;
        match path {
            None if operation == Operation::Remove => {
                Err(bad_request("noTarget", "The operation remove needs a path."))
            }
            None => self.assign_members(operation, "", value),
            Some(path) => self.assign(operation, path, value),
        }
    }

    /// Assigns each member of an object below a path.
    fn assign_members(&mut self, operation: Operation, below: &str, value: &Json) -> Result<(), Refusal> {
        let Json::Object(members) = value else {
            let attribute = if below.is_empty() { "value" } else { below.trim_end_matches(['.', ':']) };
            return Err(invalid_value(attribute, "A value is an object here."));
        };
        for (name, value) in members {
            self.assign(operation, &format!("{below}{name}"), value)?;
        }
        Ok(())
    }

    fn assign(&mut self, operation: Operation, path: &str, value: &Json) -> Result<(), Refusal> {
        let path = SchemaPath::parse(path)?;
        if path.is_enterprise {
            return match path.attribute.as_str() {
                "organization" => self.set_text(operation, Organization, "organization", value),
                "" if operation == Operation::Remove || value.is_null() => self.remove(&[Organization]),
                "" => self.assign_members(operation, &format!("{ENTERPRISE}:"), value),
                _ => Ok(()),
            };
        }
        match path.attribute.as_str() {
            "active" => self.set_active(operation, value),
            "name" if operation == Operation::Remove || value.is_null() => self.remove(&[GivenName, FamilyName]),
            "name" => self.assign_members(operation, "name.", value),
            "phonenumbers" => match (&path.item, operation) {
                (Some(item), _) => self.set_phone(operation, item, &path.part, value),
                (None, Operation::Remove) => self.remove(&[WorkPhone, MobilePhone]),
                (None, _) => self.set_phones(operation, value),
            },
            name => match Attribute::parse(name) {
                Some(attribute) if path.item.is_none() => self.set_text(operation, attribute, name, value),
                _ => Ok(()),
            },
        }
    }

    fn remove(&mut self, attributes: &[Attribute]) -> Result<(), Refusal> {
        attributes.iter().for_each(|attribute| drop(self.texts.remove(attribute)));
        Ok(())
    }

    fn set_text(
        &mut self,
        operation: Operation,
        attribute: Attribute,
        name: &str,
        value: &Json,
    ) -> Result<(), Refusal> {
        match value {
            _ if operation == Operation::Remove => self.remove(&[attribute]),
            Json::Null => self.remove(&[attribute]),
            Json::String(text) if text.contains('\0') => Err(invalid_value(name, message::NUL)),
            Json::String(text) => {
                self.texts.insert(attribute, text.trim().to_owned());
                Ok(())
            }
            _ => Err(invalid_value(name, message::STRING)),
        }
    }

    fn set_active(&mut self, operation: Operation, value: &Json) -> Result<(), Refusal> {
        self.is_active = match value {
            _ if operation == Operation::Remove => true,
            Json::Null => true,
            Json::Bool(value) => *value,
            Json::String(text) => boolean(text).ok_or_else(|| invalid_value("active", message::BOOLEAN))?,
            _ => return Err(invalid_value("active", message::BOOLEAN)),
        };
        Ok(())
    }

    /// Sets the numbers of a list. A replacement removes those that it lacks.
    fn set_phones(&mut self, operation: Operation, value: &Json) -> Result<(), Refusal> {
        if operation == Operation::Replace {
            self.remove(&[WorkPhone, MobilePhone])?;
        }
        let numbers = match value {
            Json::Null => return Ok(()),
            Json::Array(numbers) => numbers.as_slice(),
            number => std::slice::from_ref(number),
        };
        for number in numbers {
            let Json::Object(parts) = number else {
                return Err(invalid_value("phoneNumbers", "A number is an object."));
            };
            let kind = filter::member(parts, "type").and_then(Json::as_str).and_then(phone);
            if let Some(attribute) = kind {
                self.set_text(
                    Operation::Add,
                    attribute,
                    "phoneNumbers",
                    filter::member(parts, "value").unwrap_or(&Json::Null),
                )?;
            }
        }
        Ok(())
    }

    /// Sets the number that a path selects by its type.
    fn set_phone(&mut self, operation: Operation, item: &str, part: &str, value: &Json) -> Result<(), Refusal> {
        let selected = filter::parse(item)?;
        let [comparison] = selected.as_slice() else { return Ok(()) };
        let kind = match &comparison.value {
            FilterValue::Text(kind) if comparison.attribute == "type" => phone(kind),
            _ => None,
        };
        match (kind, part, value) {
            (Some(attribute), "value", value) => self.set_text(operation, attribute, "phoneNumbers", value),
            (Some(attribute), "", Json::Object(parts)) => self.set_text(
                operation,
                attribute,
                "phoneNumbers",
                filter::member(parts, "value").unwrap_or(&Json::Null),
            ),
            (Some(attribute), "", value) => self.set_text(operation, attribute, "phoneNumbers", value),
            _ => Ok(()),
        }
    }

    /// Returns the text of an attribute.
    pub fn text(&self, attribute: Attribute) -> Option<&str> {
        self.texts.get(&attribute).map(String::as_str)
    }

    /// Returns the fields of the user, with defaults for missing texts.
    fn fields(&self) -> Map<String, Json> {
        let username = self.text(UserName).unwrap_or("");
        // The name is the part of the address before the @.
        let local: String = username.split('@').next().unwrap_or("").chars().take(100).collect();
        let attributes =
            [UserName, GivenName, FamilyName, Title, WorkPhone, MobilePhone, TimeZone, Organization, UserType];
        let value = |attribute: Attribute| match (self.text(attribute), attribute) {
            (None | Some(""), GivenName | FamilyName) => local.clone(),
            (None | Some(""), TimeZone) => "UTC".to_owned(),
            (None, UserType) => "internal".to_owned(),
            (text, _) => text.unwrap_or("").to_owned(),
        };
        attributes
            .into_iter()
            .filter_map(|attribute| Some((attribute.field()?.to_owned(), value(attribute).into())))
            .collect()
    }

    /// Returns the body that creates the account.
    pub fn new_account(&self) -> Result<Json, Refusal> {
        self.check_type()?;
        Ok(Json::Object(self.fields()))
    }

    /// Returns the body that changes the account from another draft: the fields that differ.
    pub fn changes_since(&self, before: &UserDraft) -> Result<Json, Refusal> {
        if self.text(UserName).is_none_or(str::is_empty) {
            return Err(invalid_value("userName", message::REQUIRED));
        }
        if self.text(UserType).is_some_and(|kind| Some(kind) != before.text(UserType)) {
            self.check_type()?;
            return Err(bad_request("mutability", "userType: This field cannot be changed."));
        }
        let former = before.fields();
        let mut fields = self.fields();
        fields.remove("account_type");
        fields.retain(|name, value| former.get(name) != Some(value));
        Ok(Json::Object(fields))
    }

    fn check_type(&self) -> Result<(), Refusal> {
        match self.text(UserType) {
            None | Some("internal" | "external") => Ok(()),
            Some(other) => Err(invalid_value("userType", &message::choice(other))),
        }
    }

    /// Returns the id of the directory. An empty one is none.
    pub fn external_id(&self) -> Result<Option<&str>, Refusal> {
        check_external_id(self.text(ExternalId))
    }
}

/// Returns the value of an operation. Only `remove` needs none.
pub fn value_of<'a>(operation: Operation, path: Option<&str>, value: Option<&'a Json>) -> Result<&'a Json, Refusal> {
    match value {
        Some(value) => Ok(value),
        None if operation == Operation::Remove => Ok(&Json::Null),
        None => Err(invalid_value(path.unwrap_or("value"), message::REQUIRED)),
    }
}

/// Returns an `externalId` that is stored: an empty one is none.
pub fn check_external_id(external_id: Option<&str>) -> Result<Option<&str>, Refusal> {
    let Some(text) = external_id.filter(|text| !text.is_empty()) else { return Ok(None) };
    if text.contains('\0') {
        return Err(invalid_value("externalId", message::NUL));
    }
    match text.chars().count() > MAX_EXTERNAL_ID {
        true => Err(invalid_value("externalId", &message::too_long(MAX_EXTERNAL_ID))),
        false => Ok(Some(text)),
    }
}

/// Returns the attribute of a telephone number of a type.
fn phone(kind: &str) -> Option<Attribute> {
    match kind.to_ascii_lowercase().as_str() {
        "work" => Some(WorkPhone),
        "mobile" => Some(MobilePhone),
        _ => None,
    }
}

/// A path of an operation, such as `phoneNumbers[type eq "work"].value`.
#[derive(Debug, PartialEq)]
pub struct SchemaPath {
    /// Is true if the attribute belongs to the enterprise schema.
    pub is_enterprise: bool,
    /// The attribute in lower case, with its part unless an item is selected.
    pub attribute: String,
    /// The filter in brackets, which selects an item.
    pub item: Option<String>,
    /// The part of the selected item, in lower case.
    pub part: String,
}

impl SchemaPath {
    /// Parses a path. Refuses one that is empty, or whose brackets do not close.
    pub fn parse(path: &str) -> Result<SchemaPath, Refusal> {
        let invalid = || bad_request("invalidPath", "The path is not valid.");
        let path = path.trim();
        if path.is_empty() {
            return Err(invalid());
        }
        let (attribute, item, part) = match path.find('[') {
            None => (path, None, ""),
            Some(open) => {
                let close = path.rfind(']').filter(|close| *close > open).ok_or_else(invalid)?;
                let part = &path[close + 1..];
                let part = if part.is_empty() { part } else { part.strip_prefix('.').ok_or_else(invalid)? };
                (&path[..open], Some(path[open + 1..close].to_owned()), part)
            }
        };
        let attribute = attribute.to_ascii_lowercase();
        let enterprise = attribute
            .strip_prefix(&ENTERPRISE.to_ascii_lowercase())
            .map(|name| name.trim_start_matches([':', '.']).to_owned());
        let is_enterprise = enterprise.is_some();
        let attribute = enterprise.unwrap_or_else(|| filter::without_schema(&attribute));
        Ok(SchemaPath { is_enterprise, attribute, item, part: part.to_ascii_lowercase() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn patched(operations: &[(Operation, Option<&str>, Json)]) -> UserDraft {
        let mut draft = UserDraft::from_resource(&json!({"userName": "a@b.example", "title": "Clerk"})).unwrap();
        for (operation, path, value) in operations {
            draft.apply(*operation, *path, Some(value)).unwrap();
        }
        draft
    }

    #[test]
    fn directories_write_paths_in_many_forms() {
        let phone = |path: &'static str, value: Json| patched(&[(Operation::Add, Some(path), value)]);
        for (path, value) in [
            ("phoneNumbers[type eq \"work\"].value", json!("1")),
            ("PHONENUMBERS[Type EQ \"work\"].Value", json!("1")),
            ("phoneNumbers[type eq \"work\"]", json!({"value": "1"})),
            ("phoneNumbers", json!([{"type": "work", "value": "1"}, {"type": "fax", "value": "2"}])),
            ("urn:ietf:params:scim:schemas:core:2.0:User:phoneNumbers", json!([{"type": "work", "value": "1"}])),
        ] {
            assert_eq!(phone(path, value).text(WorkPhone), Some("1"), "{path}");
        }
        let organization = format!("{ENTERPRISE}:organization");
        for (path, value) in [
            (Some(organization.as_str()), json!("X")),
            (Some(ENTERPRISE), json!({"organization": "X"})),
            (None, json!({organization.as_str(): "X"})),
            (None, json!({ENTERPRISE: {"organization": "X", "manager": {"value": "1"}}})),
        ] {
            assert_eq!(patched(&[(Operation::Replace, path, value)]).text(Organization), Some("X"), "{path:?}");
        }
        let by_name =
            patched(&[(Operation::Replace, None, json!({"name.givenName": "A", "name": {"familyName": "B"}}))]);
        assert_eq!((by_name.text(GivenName), by_name.text(FamilyName)), (Some("A"), Some("B")));
        for value in [json!(false), json!("False"), json!("false")] {
            assert!(!patched(&[(Operation::Replace, Some("active"), value)]).is_active);
        }
    }

    #[test]
    fn unknown_attributes_are_ignored_and_wrong_values_are_not() {
        let before = patched(&[]);
        for (path, value) in [
            (Some("emails[type eq \"work\"].value"), json!("x@b.example")),
            (Some("emails[type eq \"work\" and primary eq true].value"), json!("x@b.example")),
            (Some("roles"), json!([{"value": "admin"}])),
            (Some("password"), json!("secret")),
            (Some("id"), json!("9")),
            (None, json!({"displayName": "X", "urn:example:2.0:User:cost": 7, "addresses": []})),
        ] {
            assert_eq!(patched(&[(Operation::Replace, path, value)]), before, "{path:?}");
        }
        let mut draft = before.clone();
        for (path, value) in
            [("title", json!(5)), ("active", json!("yes")), ("name", json!("A B")), ("phoneNumbers", json!(["1"]))]
        {
            assert!(draft.apply(Operation::Replace, Some(path), Some(&value)).is_err(), "{path}");
        }
        for path in ["", " ", "phoneNumbers[type eq \"work\"", "phoneNumbers]x[", "phoneNumbers[type eq \"work\"]value"]
        {
            assert!(draft.apply(Operation::Replace, Some(path), Some(&json!("1"))).is_err(), "{path}");
        }
        assert!(draft.apply(Operation::Remove, None, Some(&Json::Null)).is_err());
    }

    #[test]
    fn missing_names_are_the_part_before_the_at() {
        let fields = patched(&[(Operation::Remove, Some("title"), Json::Null)]).fields();
        assert_eq!(
            (&fields["first_name"], &fields["last_name"], &fields["job_title"]),
            (&json!("a"), &json!("a"), &json!(""))
        );
        assert_eq!((&fields["timezone"], &fields["account_type"]), (&json!("UTC"), &json!("internal")));
    }
}
