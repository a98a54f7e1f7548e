//! The declarations of fields.

use crate::value::CheckedValue;
use serde_json::Value as Json;
use std::borrow::Cow;
use std::sync::Arc;

/// A name or text that is static for our own resources and owned for those that a build declares.
pub type StaticText = Cow<'static, str>;

/// A value of an enumeration and its display text.
#[derive(Clone, Debug)]
pub struct EnumOption {
    /// The value, as it is sent and stored.
    pub value: StaticText,
    /// The display text.
    pub text: StaticText,
    /// Is true if only the system creates objects of this type (`docs/reference/conventions.md`). OPTIONS shows it if it is set.
    pub system: Option<bool>,
}

impl EnumOption {
    pub fn new(value: impl Into<StaticText>, text: impl Into<StaticText>) -> Self {
        EnumOption { value: value.into(), text: text.into(), system: None }
    }
}

/// The target of a reference.
#[derive(Clone, Debug, PartialEq)]
pub struct ReferenceTarget {
    /// The table of the ids.
    pub table: StaticText,
    /// The address that finds ids by text, for OPTIONS.
    pub autocomplete: Option<StaticText>,
}

/// The characters that a text may contain.
#[derive(Clone, Copy)]
pub struct Charset {
    /// Returns whether a character is allowed.
    pub allows: fn(char) -> bool,
    /// The characters as a regular expression, for OPTIONS and OpenAPI. If it is empty, they do not show it.
    pub regex: &'static str,
}

/// One line, without line ends and other control characters. Texts that may become part of a header must use it.
pub const LINE: Charset = Charset { allows: |c| !c.is_control() && !matches!(c, '\u{2028}' | '\u{2029}'), regex: "" };

/// A name that people read beside others, without bidirectional controls, which reorder the text around them on the screen.
pub const UNDIRECTED: Charset =
    Charset { allows: |c| !matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'), regex: "" };

/// Letters, digits and hyphens, as in credentials.
pub const TOKEN: Charset = Charset { allows: |c| c.is_ascii_alphanumeric() || c == '-', regex: "^[a-zA-Z0-9-]*$" };

/// The kind of a field's value, with its bounds. Lengths are in characters, and bounds are inclusive.
#[derive(Clone)]
pub enum FieldKind {
    Text {
        min: usize,
        max: usize,
        trim: bool,
        charset: Option<Charset>,
    },
    Email {
        max: usize,
    },
    Url {
        max: usize,
    },
    /// A text that is never trimmed, shown or logged (`docs/reference/conventions.md`).
    Secret {
        min: usize,
        max: usize,
    },
    Integer {
        min: i64,
        max: i64,
    },
    /// A text padded to `scale`; at most `precision` digits.
    Decimal {
        precision: usize,
        scale: usize,
    },
    Boolean,
    Date,
    DateTime,
    Uuid,
    Enum {
        choices: Arc<[EnumOption]>,
    },
    /// One of a list that is too long for a declaration.
    Listed {
        is_listed: fn(&str) -> bool,
        all: fn() -> Vec<&'static str>,
    },
    /// Several of the choices. Answers show each once, in the order of the choices.
    Set {
        choices: Arc<[EnumOption]>,
        max_items: usize,
    },
    /// The id of a row of the target.
    Reference {
        target: ReferenceTarget,
    },
    /// Ids of rows of the target, each once.
    References {
        target: ReferenceTarget,
        max_items: usize,
    },
    /// A list of texts that are checked together.
    Texts {
        /// The maximum number of texts, and the message beyond it; `None`: the resource has a rule.
        at_most: Option<(usize, StaticText)>,
        are_valid: fn(&[String]) -> bool,
        invalid: &'static str,
    },
    /// The id of a user, shown as a user reference (`docs/reference/conventions.md`).
    User,
    /// The id of a user, shown unchanged.
    UserId,
    /// One file with this extension. A body has the token of an upload, or the id of the file that the
    /// field already has; answers show the id.
    File {
        extension: &'static str,
    },
    /// Files, as tokens or ids.
    Files {
        max_items: usize,
    },
    /// Any JSON, stored in its canonical spelling ([`JsonValue::canonical`](crate::JsonValue::canonical)) of at most
    /// `max_bytes`. Lists and objects in it nest at most `max_depth` levels. It is [`CheckedValue::JsonText`], never a tree.
    Json {
        max_bytes: usize,
        max_depth: usize,
    },
    /// An object whose rules the resource checks.
    Object,
    /// A list that the server creates (read-only).
    List,
}

impl FieldKind {
    /// Returns a trimmed text.
    pub fn text(max: usize) -> FieldKind {
        FieldKind::Text { min: 0, max, trim: true, charset: None }
    }
    /// Returns an enumeration of `(value, text)`.
    pub fn choices(choices: &[(&'static str, &'static str)]) -> FieldKind {
        FieldKind::Enum { choices: choices.iter().map(|(value, text)| EnumOption::new(*value, *text)).collect() }
    }
    /// Returns the name of the type in OPTIONS (`docs/reference/conventions.md`).
    pub fn type_name(&self) -> &'static str {
        match self {
            FieldKind::Text { .. } | FieldKind::Secret { .. } => "string",
            FieldKind::Email { .. } => "email",
            FieldKind::Url { .. } => "url",
            FieldKind::Integer { .. } | FieldKind::Reference { .. } => "integer",
            FieldKind::Decimal { .. } => "decimal",
            FieldKind::Boolean => "boolean",
            FieldKind::Date => "date",
            FieldKind::DateTime => "datetime",
            FieldKind::Uuid => "uuid",
            FieldKind::Enum { .. } | FieldKind::Listed { .. } => "enum",
            FieldKind::Set { .. } | FieldKind::References { .. } => "set",
            FieldKind::Texts { .. } | FieldKind::List => "list",
            FieldKind::User | FieldKind::UserId => "user",
            FieldKind::File { .. } | FieldKind::Files { .. } => "file",
            FieldKind::Json { .. } => "json",
            FieldKind::Object => "object",
        }
    }
    /// Returns the display text of a value of an enumeration or set.
    pub fn choice_text(&self, value: &str) -> Option<&str> {
        match self {
            FieldKind::Enum { choices } | FieldKind::Set { choices, .. } => {
                choices.iter().find(|choice| choice.value == value).map(|choice| choice.text.as_ref())
            }
            _ => None,
        }
    }
}

/// The access to a field: bodies may set it, and answers show it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FieldAccess {
    ReadWrite,
    /// Set on create, ignored by PATCH.
    CreateOnly,
    /// Ignored in every body.
    ReadOnly,
    /// Never shown in an answer.
    WriteOnly,
}

/// A table whose rows contain a set: the column `item` of the rows whose column `owner` has the id of the resource's row.
#[derive(Clone, Debug)]
pub struct SetTable {
    pub table: &'static str,
    pub owner: &'static str,
    pub item: &'static str,
}

/// A column of sealed values, NULL where there is none, and the column with the random key of the row.
#[derive(Clone, Debug)]
pub struct SealedColumns {
    pub column: &'static str,
    pub row_key: &'static str,
}

/// The place of a field's value in the database. The table of the resource has the alias `t`.
#[derive(Clone, Debug)]
pub enum ColumnSource {
    /// A column of the table, or of the further table that [`Field::table`] names.
    Column(StaticText),
    /// An SQL expression, in which `{now}` stands for the time of the request.
    Sql(&'static str),
    /// Rows of another table.
    Members(SetTable),
    /// A sealed column.
    Sealed(SealedColumns),
    /// The resource itself stores and shows the value.
    None,
}

/// One field of a resource.
#[derive(Clone)]
pub struct Field {
    pub name: StaticText,
    pub kind: FieldKind,
    /// The display name, for OPTIONS.
    pub label: Option<StaticText>,
    /// The purpose of the field, in OPTIONS.
    pub description: Option<StaticText>,
    pub access: FieldAccess,
    pub required: bool,
    pub nullable: bool,
    pub blank: bool,
    /// Is true if an empty text is stored as null.
    pub is_blank_null: bool,
    /// The name of the database index that makes the field unique.
    pub unique: Option<StaticText>,
    /// Is true if texts that differ only in letter case are different, although they have a folded copy.
    pub is_unique_exactly: bool,
    pub filter: bool,
    /// Is true if `in` is allowed in addition to the predicates of the kind.
    pub also_in: bool,
    /// Is true if a reference is filtered like a set: by `exact` and `in` alone.
    pub filters_as_set: bool,
    /// Is true if it is filtered by `exact` alone, independent of the predicates of its kind.
    pub filters_exactly: bool,
    /// Is true if a filter value of the wrong type is refused with the message for choices, instead of that of the type.
    pub filters_by_choice: bool,
    pub sort: bool,
    /// Is true if an enumeration sorts by the places of its choices instead of their values.
    pub sorts_by_place: bool,
    /// Is true if lists may be sorted by the text with runs of digits compared as numbers.
    pub sorts_naturally: bool,
    pub isnull: bool,
    pub in_list: bool,
    pub in_detail: bool,
    pub is_personal: bool,
    /// The maximum size in bytes of a text or of JSON in the administration log. Above it, the log has only the size.
    pub max_logged_bytes: Option<usize>,
    pub source: ColumnSource,
    /// The table of its columns: 0 is that of the resource, `n` the `n`th of [`Resource::further_tables`].
    ///
    /// [`Resource::further_tables`]: crate::Resource::further_tables
    pub table: usize,
    /// The column with the case-folded text, if there is one.
    pub folded: Option<StaticText>,
    /// Is true if an index of the database begins with that column, so that `exact` can use it.
    pub is_fold_indexed: bool,
    pub default: Option<CheckedValue>,
    /// The characters that a secret may contain.
    pub charset: Option<Charset>,
    /// The maximum length that OPTIONS shows, if it differs from the enforced one (`docs/reference/conventions.md`).
    pub advertised_max: Option<usize>,
    /// Names that are refused, shown in OPTIONS.
    pub reserved: Vec<StaticText>,
    /// Validators of OPTIONS that do not follow from the kind.
    pub hint: Option<Json>,
    /// The schema in OpenAPI, if it does not follow from the kind: the contents of an object or a list.
    pub schema: Option<fn() -> Json>,
    /// An example in OpenAPI.
    pub example: Option<Json>,
}

impl Field {
    /// Returns a field that may be written and omitted, may not be null, and is shown in lists and details.
    pub fn new(name: impl Into<StaticText>, kind: FieldKind) -> Field {
        let name = name.into();
        let source = match &kind {
            FieldKind::References { .. } => ColumnSource::None,
            _ => ColumnSource::Column(name.clone()),
        };
        Field {
            kind,
            label: None,
            description: None,
            access: FieldAccess::ReadWrite,
            required: false,
            nullable: false,
            blank: true,
            is_blank_null: false,
            unique: None,
            is_unique_exactly: false,
            filter: false,
            also_in: false,
            filters_as_set: false,
            filters_exactly: false,
            filters_by_choice: false,
            sort: false,
            sorts_by_place: false,
            sorts_naturally: false,
            isnull: false,
            in_list: true,
            in_detail: true,
            is_personal: false,
            max_logged_bytes: None,
            source,
            table: 0,
            folded: None,
            is_fold_indexed: false,
            default: None,
            charset: None,
            advertised_max: None,
            reserved: Vec::new(),
            hint: None,
            schema: None,
            example: None,
            name,
        }
    }
    /// Returns the field `id`, which the server sets.
    pub fn id() -> Field {
        Field::new("id", FieldKind::Integer { min: 1, max: i64::MAX }).read_only().filter().sort()
    }
    /// Returns the fields `created_at`, `created_by`, `modified_at` and `modified_by`
    /// (`docs/reference/conventions.md`), with filters.
    pub fn audit() -> [Field; 4] {
        [
            Field::new("created_at", FieldKind::DateTime).read_only().filter(),
            Field::new("created_by", FieldKind::User).read_only().nullable().filter(),
            Field::new("modified_at", FieldKind::DateTime).read_only().filter(),
            Field::new("modified_by", FieldKind::User).read_only().nullable().filter(),
        ]
    }
    /// Requires a value on create, which may not be blank. The body must contain it unless there is a default.
    pub fn required(mut self) -> Field {
        self.required = true;
        self.not_blank()
    }
    /// Forbids an empty text.
    pub fn not_blank(mut self) -> Field {
        self.blank = false;
        self
    }
    /// Stores an empty text as null, unless the field may not be blank.
    pub fn blank_is_null(mut self) -> Field {
        self.is_blank_null = true;
        self
    }
    /// Allows null.
    pub fn nullable(mut self) -> Field {
        self.nullable = true;
        self
    }
    /// Ignores it in every body.
    pub fn read_only(mut self) -> Field {
        self.access = FieldAccess::ReadOnly;
        self
    }
    /// Excludes it from every answer.
    pub fn write_only(mut self) -> Field {
        self.access = FieldAccess::WriteOnly;
        self
    }
    /// Ignores it in a PATCH.
    pub fn create_only(mut self) -> Field {
        self.access = FieldAccess::CreateOnly;
        self
    }
    /// Makes it unique by this index of the database. Texts that are [`Field::folded`] are compared without case.
    pub fn unique(mut self, index: impl Into<StaticText>) -> Field {
        self.unique = Some(index.into());
        self
    }
    /// Makes it unique by this index of the database. Texts that differ only in letter case are different.
    pub fn unique_exactly(mut self, index: impl Into<StaticText>) -> Field {
        self.is_unique_exactly = true;
        self.unique(index)
    }
    /// Adds a case-folded copy in the column `{name}_fold`, for the `i…` predicates and the order.
    pub fn folded(mut self) -> Field {
        self.folded = Some(format!("{}_fold", self.name).into());
        self
    }
    /// Declares that an index of the database begins with the column of the case-folded copy.
    pub fn fold_indexed(mut self) -> Field {
        self.is_fold_indexed = true;
        self
    }
    /// Allows filters of lists by it.
    pub fn filter(mut self) -> Field {
        self.filter = true;
        self
    }
    /// Allows filters of lists by it. A value of the wrong type is refused with the message for choices.
    pub fn filter_by_choice(mut self) -> Field {
        self.filters_by_choice = true;
        self.filter()
    }
    /// Allows filters of lists by it, a reference, like by a set: by `exact` and `in` alone.
    pub fn filter_as_set(mut self) -> Field {
        self.filters_as_set = true;
        self.filter()
    }
    /// Allows filters of lists by it, by `exact` alone.
    pub fn filter_exactly(mut self) -> Field {
        self.filters_exactly = true;
        self.filter()
    }
    /// Allows the predicate `in`, too.
    pub fn also_in(mut self) -> Field {
        self.also_in = true;
        self
    }
    /// Allows lists to be sorted by it.
    pub fn sort(mut self) -> Field {
        self.sort = true;
        self
    }
    /// Allows filters of lists by the test for null.
    pub fn isnull(mut self) -> Field {
        self.isnull = true;
        self
    }
    /// Shows it only in lists.
    pub fn list_only(mut self) -> Field {
        self.in_detail = false;
        self
    }
    /// Shows it only in details.
    pub fn detail_only(mut self) -> Field {
        self.in_list = false;
        self
    }
    /// Declares personal data, which is removed with the person, also from the administration log.
    pub fn personal(mut self) -> Field {
        self.is_personal = true;
        self
    }
    /// Sets the maximum size in bytes of a text or of JSON in the administration log. Above it, the log has only the size.
    pub fn logged_up_to(mut self, bytes: usize) -> Field {
        self.max_logged_bytes = Some(bytes);
        self
    }
    /// Makes it a filter only, which is never shown.
    pub fn filter_only(self) -> Field {
        let mut field = self.read_only().filter();
        (field.in_list, field.in_detail) = (false, false);
        field
    }
    /// Computes it in the database by this expression (see [`ColumnSource::Sql`]).
    pub fn sql(mut self, expression: &'static str) -> Field {
        self.source = ColumnSource::Sql(expression);
        self
    }
    /// Stores it in rows of another table (see [`SetTable`]).
    pub fn members(mut self, table: &'static str, owner: &'static str, item: &'static str) -> Field {
        self.source = ColumnSource::Members(SetTable { table, owner, item });
        self
    }
    /// Leaves its storage and its output to the resource.
    pub fn stored_by_resource(mut self) -> Field {
        self.source = ColumnSource::None;
        self
    }
    /// Seals its value in a column, for a place that includes the column with the row's random key. Names
    /// of stored columns must not change, since sealed values open in their place alone.
    pub fn encrypted(mut self, column: &'static str, row_key: &'static str) -> Field {
        self.source = ColumnSource::Sealed(SealedColumns { column, row_key });
        self.access = FieldAccess::WriteOnly;
        self
    }
    /// Stores it in this column, instead of one with the name of the field.
    pub fn column(mut self, column: impl Into<StaticText>) -> Field {
        self.source = ColumnSource::Column(column.into());
        self
    }
    /// Stores its columns in the `n`th of the resource's further tables, counted from 1.
    pub fn in_further_table(mut self, n: usize) -> Field {
        self.table = n;
        self
    }
    /// Sets the value that is stored if a create does not send one.
    pub fn default(mut self, value: impl Into<CheckedValue>) -> Field {
        self.default = Some(value.into());
        self
    }
    /// Sets the maximum length that OPTIONS shows instead of the enforced one.
    pub fn advertise(mut self, max: usize) -> Field {
        self.advertised_max = Some(max);
        self
    }
    /// Sets the minimum number of characters of the text.
    pub fn min_length(mut self, length: usize) -> Field {
        if let FieldKind::Text { min, .. } = &mut self.kind {
            *min = length;
        }
        self
    }
    /// Restricts the text or secret to these characters.
    pub fn charset(mut self, set: Charset) -> Field {
        match &mut self.kind {
            FieldKind::Text { charset, .. } => *charset = Some(set),
            _ => self.charset = Some(set),
        }
        self
    }
    /// Refuses these names, and shows them in OPTIONS.
    pub fn reserved(mut self, names: &[&'static str]) -> Field {
        self.reserved = names.iter().map(|name| StaticText::from(*name)).collect();
        self
    }
    /// Sets the schema in OpenAPI, since the kind does not describe the contents of an object or a list.
    pub fn schema(mut self, schema: fn() -> Json) -> Field {
        self.schema = Some(schema);
        self
    }
    /// Sets the example in OpenAPI.
    pub fn example(mut self, example: impl Into<Json>) -> Field {
        self.example = Some(example.into());
        self
    }
    /// Sets its display name.
    pub fn label(mut self, label: impl Into<StaticText>) -> Field {
        self.label = Some(label.into());
        self
    }
    /// Sets its purpose.
    pub fn description(mut self, description: impl Into<StaticText>) -> Field {
        self.description = Some(description.into());
        self
    }
    /// Returns whether a create without the field is refused.
    pub fn must_be_sent(&self) -> bool {
        self.required && self.default.is_none()
    }
    /// Returns whether stored rows may have null. Rows that are older than a required field of a build
    /// have null, and lists are filtered by it.
    pub fn may_be_null(&self) -> bool {
        self.nullable || self.isnull
    }
    /// Returns whether bodies may set it.
    pub fn is_writable(&self) -> bool {
        self.access != FieldAccess::ReadOnly
    }
    /// Returns whether it is a text with the filters of texts.
    pub fn is_text(&self) -> bool {
        matches!(self.kind, FieldKind::Text { .. } | FieldKind::Email { .. } | FieldKind::Url { .. })
    }
}
