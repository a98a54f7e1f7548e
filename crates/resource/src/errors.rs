//! The collected errors of fields, and the standard messages (`docs/reference/conventions.md`).

use indexmap::IndexMap;
use serde_json::{Map, Value as Json};

/// The errors of a body or a query: messages by field name, nested where the body nests.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Errors(IndexMap<String, FieldErrors>);

/// The errors of one field.
#[derive(Clone, Debug, PartialEq)]
pub enum FieldErrors {
    /// The messages about its value.
    Messages(Vec<String>),
    /// The errors of the fields in it.
    Nested(Errors),
}

impl FieldErrors {
    /// All messages, including the nested ones.
    pub fn messages(&self) -> Vec<String> {
        match self {
            FieldErrors::Messages(messages) => messages.clone(),
            FieldErrors::Nested(errors) => errors.messages(),
        }
    }
}

impl Errors {
    /// Returns an empty collection of errors.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns one message on one field.
    pub fn single(field: &str, message: impl Into<String>) -> Self {
        let mut errors = Self::new();
        errors.add(field, message);
        errors
    }

    /// Adds a message to a field, unless the field has it already.
    pub fn add(&mut self, field: &str, message: impl Into<String>) {
        let message = message.into();
        match self.0.entry(field.to_owned()).or_insert_with(|| FieldErrors::Messages(Vec::new())) {
            FieldErrors::Messages(messages) if messages.contains(&message) => {}
            FieldErrors::Messages(messages) => messages.push(message),
            FieldErrors::Nested(errors) => errors.add("non_field_errors", message),
        }
    }

    /// Adds a message to a field of a nested group.
    pub fn add_nested(&mut self, group: &str, field: &str, message: impl Into<String>) {
        let entry = self.0.entry(group.to_owned()).or_insert_with(|| FieldErrors::Nested(Errors::new()));
        match entry {
            FieldErrors::Nested(errors) => errors.add(field, message),
            FieldErrors::Messages(messages) => messages.push(message.into()),
        }
    }

    /// Replaces the messages of a field for which `words` returns another text.
    pub fn replace_messages(&mut self, field: &str, words: impl Fn(&str) -> Option<String>) {
        if let Some(FieldErrors::Messages(messages)) = self.0.get_mut(field) {
            messages
                .iter_mut()
                .for_each(|message| *message = words(message).unwrap_or_else(|| std::mem::take(message)));
        }
    }

    /// Removes the errors of a field.
    pub fn remove(&mut self, field: &str) {
        self.0.shift_remove(field);
    }

    /// Adds the errors of a nested group under its name, if there are any.
    pub fn nest(&mut self, field: &str, errors: Errors) {
        if !errors.is_empty() {
            self.0.insert(field.to_owned(), FieldErrors::Nested(errors));
        }
    }

    /// Adds other errors; those of a field replace earlier ones.
    pub fn merge(&mut self, other: Errors) {
        self.0.extend(other.0);
    }

    /// The fields with errors, in the order in which they were added.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &FieldErrors)> {
        self.0.iter().map(|(field, errors)| (field.as_str(), errors))
    }

    /// All messages, including the nested ones.
    pub fn messages(&self) -> Vec<String> {
        self.0.values().flat_map(FieldErrors::messages).collect()
    }

    /// Returns whether the field has an error.
    pub fn has_field(&self, field: &str) -> bool {
        self.0.contains_key(field)
    }

    /// Returns whether there are no errors.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns `Ok` if there are no errors, else the errors.
    pub fn refuse(self) -> Result<(), Errors> {
        if self.is_empty() { Ok(()) } else { Err(self) }
    }

    /// Returns the body of the answer with status 400.
    pub fn to_json(&self) -> Json {
        let show = |entry: &FieldErrors| match entry {
            FieldErrors::Messages(messages) => messages.clone().into(),
            FieldErrors::Nested(errors) => errors.to_json(),
        };
        Json::Object(self.0.iter().map(|(field, entry)| (field.clone(), show(entry))).collect::<Map<_, _>>())
    }
}

/// The outcome of a check: what may be written, or the errors.
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub enum Checked<T, E = Errors> {
    Valid(T),
    Invalid(E),
}

impl<T, E> Checked<T, E> {
    /// Converts the valid value.
    pub fn map<U>(self, convert: impl FnOnce(T) -> U) -> Checked<U, E> {
        match self {
            Checked::Valid(value) => Checked::Valid(convert(value)),
            Checked::Invalid(errors) => Checked::Invalid(errors),
        }
    }

    /// Returns the valid value, or the refusal that `refuse` makes of the errors.
    ///
    /// # Errors
    /// That refusal.
    pub fn or_refuse<R>(self, refuse: impl FnOnce(E) -> R) -> Result<T, R> {
        match self {
            Checked::Valid(value) => Ok(value),
            Checked::Invalid(errors) => Err(refuse(errors)),
        }
    }
}

/// The standard messages, word for word.
pub mod message {
    pub use fixed::*;
    use std::fmt::Display;

    mod fixed {
        pub const REQUIRED: &str = "This field is required.";
        pub const NOT_IN_FUTURE: &str = "Date must be in the future.";
        pub const BLANK: &str = "This field may not be blank.";
        pub const NULL: &str = "This field may not be null.";
        pub const UNIQUE: &str = "This field must be unique.";
        pub const BOOLEAN: &str = "Must be a valid boolean.";
        pub const INTEGER: &str = "A valid integer is required.";
        pub const DECIMAL: &str = "A valid number is required.";
        pub const STRING: &str = "Not a valid string.";
        pub const EMAIL: &str = "Enter a valid email address.";
        pub const URL: &str = "Enter a valid URL.";
        pub const UUID: &str = "Must be a valid UUID.";
        pub const DATE: &str = "Enter a valid date.";
        pub const DATETIME: &str = "Enter a valid date/time.";
        pub const VALUE: &str = "Enter a valid value.";
        pub const NUL: &str = "Null characters are not allowed.";
        pub const EMPTY_LIST: &str = "This list may not be empty.";
        pub const NO_FIELD: &str = "This field does not exist.";
        pub const TOO_LARGE: &str = "Value is too large.";
    }

    /// A text has too many characters.
    pub fn too_long(max: usize) -> String {
        format!("Ensure this field has no more than {max} characters.")
    }
    /// A list has too many items, in the wording of some fields.
    pub fn list_too_long(max: usize) -> String {
        format!("Ensure this list has at most {max} items.")
    }
    /// A text has too few characters.
    pub fn too_short(min: usize) -> String {
        format!("Ensure this field has at least {min} characters.")
    }
    /// An integer is below its minimum.
    pub fn too_small(min: i64) -> String {
        format!("Ensure this value is greater than or equal to {min}.")
    }
    /// An integer is above its maximum.
    pub fn too_big(max: impl Display) -> String {
        format!("Ensure this value is less than or equal to {max}.")
    }
    /// A value in a body does not belong to its enumeration.
    pub fn choice(value: impl Display) -> String {
        format!("{value} is not a valid choice.")
    }
    /// A value in a query is not one of the available choices.
    pub fn select_choice(value: impl Display) -> String {
        format!("Select a valid choice. {value} is not one of the available choices.")
    }
    /// A query has more filters than the list allows.
    pub fn too_many_filters(max: usize) -> String {
        format!("Limit of {max} filter{} has been exceeded.", if max == 1 { "" } else { "s" })
    }
    /// A value of another type stands in place of an id; `type_name` is one of `str`, `int`, `dict`, ….
    pub fn pk_type(type_name: &str) -> String {
        format!("Incorrect type. Expected pk value, received {type_name}.")
    }
    /// An id does not name an object that is visible to the caller.
    pub fn invalid_id_message(value: impl Display) -> String {
        format!("Invalid pk {value} - object does not exist.")
    }
    /// A value of another type stands in place of a list.
    pub fn not_a_list(type_name: &str) -> String {
        format!("Expected a list of items but got type {type_name}.")
    }
    /// A value of another type stands in place of an object.
    pub fn not_an_object(type_name: &str) -> String {
        format!("Invalid data. Expected a dictionary, but got {type_name}.")
    }
    /// A list has too many items.
    pub fn too_many(max: usize) -> String {
        format!("Up to {max} item{} allowed.", if max == 1 { "" } else { "s" })
    }
    /// A decimal has too many digits.
    pub fn digits(max: usize) -> String {
        format!("Ensure that there are no more than {max} digits in total.")
    }
    /// A decimal has too many digits before its point.
    pub fn whole_digits(max: usize) -> String {
        format!("Ensure that there are no more than {max} digits before the decimal point.")
    }
    /// A decimal has too many decimal places.
    pub fn decimal_places(max: usize) -> String {
        format!("Ensure that there are no more than {max} decimal places.")
    }
}
