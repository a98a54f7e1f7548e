//! The declaration of a field and of a resource.

use crate::value::Value;
use serde_json::Value as Json;
use std::borrow::Cow;
use std::collections::HashMap;

/// How many parameters of a request may be filters where the declaration does not say (document 4, section 7).
pub const MAX_FILTERS: usize = 50;

/// A name or text that is static for our own resources and owned for those that a tenant declares.
pub type Name = Cow<'static, str>;

/// One value of an enumeration and its display text.
#[derive(Clone, Debug)]
pub struct Choice {
    /// What is sent and stored.
    pub value: Name,
    /// What people read.
    pub text: Name,
    /// Shown in OPTIONS beside value and text when set: whether only the system makes it (document 1, set types).
    pub system: Option<bool>,
}

impl Choice {
    /// A choice.
    pub fn new(value: impl Into<Name>, text: impl Into<Name>) -> Self {
        Choice { value: value.into(), text: text.into(), system: None }
    }
}

/// What a reference points at.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// Table of the ids.
    pub table: Name,
    /// Where ids of this kind are looked up by text, for OPTIONS.
    pub autocomplete: Option<Name>,
}

/// Characters that a text may hold.
#[derive(Clone, Copy)]
pub struct Charset {
    /// Whether a character belongs.
    pub allows: fn(char) -> bool,
    /// The same as a regular expression, for OPTIONS and OpenAPI; empty: they do not tell it.
    pub regex: &'static str,
}

/// One line: no character that ends a line, and no other that controls. What may reach a header holds nothing else.
pub const LINE: Charset = Charset { allows: |c| !c.is_control() && !matches!(c, '\u{2028}' | '\u{2029}'), regex: "" };

/// Letters, digits and hyphens: the credentials of document 1.
pub const TOKEN: Charset = Charset { allows: |c| c.is_ascii_alphanumeric() || c == '-', regex: "^[a-zA-Z0-9-]*$" };

/// What kind of value a field holds, with its bounds.
#[derive(Clone)]
#[allow(missing_docs, reason = "lengths are in characters, bounds inclusive; the names say the rest")]
pub enum Kind {
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
    /// Never trimmed, never shown, never in a log (document 4, section 2, row "JSON types").
    Secret {
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
        choices: Vec<Choice>,
    },
    /// A choice too, but from a list too long to publish, named in OPTIONS by its address.
    Listed {
        is_listed: fn(&str) -> bool,
        all: fn() -> Vec<&'static str>,
    },
    /// Several of the choices, answered without repetition in their order.
    Set {
        choices: Vec<Choice>,
        max_items: usize,
    },
    /// The id of something.
    Reference {
        target: Target,
    },
    /// Ids of things, each once.
    References {
        target: Target,
        max_items: usize,
    },
    /// Texts that are checked together.
    Texts {
        max_items: usize,
        are_valid: fn(&[String]) -> bool,
        invalid: &'static str,
        too_many: Name,
    },
    /// A user, shown as user reference (document 1, "Shared shapes").
    User,
    /// Files, as tokens or ids (document 5, section 2, `document`).
    Files {
        max_items: usize,
    },
    /// Any JSON up to so many bytes and levels.
    Json {
        max_bytes: usize,
        max_depth: usize,
    },
    /// An object with its own rules, checked by the resource.
    Object,
    /// A list made by the server (read-only).
    List,
}

impl Kind {
    /// A trimmed text.
    pub fn text(max: usize) -> Kind {
        Kind::Text { min: 0, max, trim: true, charset: None }
    }
    /// An enumeration of `(value, text)`.
    pub fn choices(choices: &[(&'static str, &'static str)]) -> Kind {
        Kind::Enum { choices: choices.iter().map(|(value, text)| Choice::new(*value, *text)).collect() }
    }
    /// The type name in OPTIONS (document 4, section 2, row "schema document").
    pub fn type_name(&self) -> &'static str {
        match self {
            Kind::Text { .. } | Kind::Secret { .. } => "string",
            Kind::Email { .. } => "email",
            Kind::Url { .. } => "url",
            Kind::Integer { .. } | Kind::Reference { .. } => "integer",
            Kind::Decimal { .. } => "decimal",
            Kind::Boolean => "boolean",
            Kind::Date => "date",
            Kind::DateTime => "datetime",
            Kind::Uuid => "uuid",
            Kind::Enum { .. } | Kind::Listed { .. } => "enum",
            Kind::Set { .. } | Kind::References { .. } => "set",
            Kind::Texts { .. } | Kind::List => "list",
            Kind::User => "user",
            Kind::Files { .. } => "file",
            Kind::Json { .. } => "json",
            Kind::Object => "object",
        }
    }
    /// The display text of an enumeration's value.
    pub fn choice_text(&self, value: &str) -> Option<&str> {
        match self {
            Kind::Enum { choices } | Kind::Set { choices, .. } => {
                choices.iter().find(|choice| choice.value == value).map(|choice| choice.text.as_ref())
            }
            _ => None,
        }
    }
}

/// Who writes a field.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Access {
    ReadWrite,
    /// Given on create, ignored by PATCH.
    CreateOnly,
    /// Ignored wherever it is sent.
    ReadOnly,
    /// Never shown.
    WriteOnly,
}

/// The rows that hold a set: `item` where `owner` is the id of the resource's row.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "table and column names")]
pub struct Members {
    pub table: &'static str,
    pub owner: &'static str,
    pub item: &'static str,
}

/// Where a field's value stands in the database. The resource's table has the alias `t`.
#[derive(Clone, Debug)]
pub enum Source {
    /// A column of the table.
    Column(Name),
    /// An expression; `{now}` in it stands for the moment of the request.
    Sql(&'static str),
    /// Rows of another table.
    Members(Members),
    /// Nowhere: the resource itself stores or shows it.
    None,
}

/// One field of a resource.
#[derive(Clone)]
#[allow(missing_docs, reason = "the builder methods of the same names say what each does")]
pub struct Field {
    pub name: Name,
    pub kind: Kind,
    pub label: Option<Name>,
    pub access: Access,
    pub required: bool,
    pub nullable: bool,
    pub blank: bool,
    /// Name of the database index that makes the field unique.
    pub unique: Option<Name>,
    pub filter: bool,
    pub sort: bool,
    pub isnull: bool,
    pub in_list: bool,
    pub in_detail: bool,
    pub is_personal: bool,
    pub source: Source,
    /// The column with the case-folded text.
    pub folded: Option<Name>,
    pub default: Option<Value>,
    /// The characters of a secret.
    pub charset: Option<Charset>,
    /// The length that OPTIONS tells where it differs from the enforced one (document 1, single sign-on).
    pub advertised_max: Option<usize>,
    pub reserved: Vec<Name>,
    /// Validators of OPTIONS that are not told by the kind.
    pub hint: Option<Json>,
}

impl Field {
    /// A field that is read and written, optional, not null, shown in lists and details.
    pub fn new(name: impl Into<Name>, kind: Kind) -> Field {
        let name = name.into();
        let source = match &kind {
            Kind::References { .. } => Source::None,
            _ => Source::Column(name.clone()),
        };
        Field {
            kind,
            label: None,
            access: Access::ReadWrite,
            required: false,
            nullable: false,
            blank: true,
            unique: None,
            filter: false,
            sort: false,
            isnull: false,
            in_list: true,
            in_detail: true,
            is_personal: false,
            source,
            folded: None,
            default: None,
            charset: None,
            advertised_max: None,
            reserved: Vec::new(),
            hint: None,
            name,
        }
    }
    /// The id that the server gives.
    pub fn id() -> Field {
        Field::new("id", Kind::Integer { min: 1, max: i64::MAX }).read_only().filter().sort()
    }
    /// `created_at`, `created_by`, `modified_at`, `modified_by` (document 1, "Shared shapes"), with filters.
    pub fn audit() -> [Field; 4] {
        [
            Field::new("created_at", Kind::DateTime).read_only().filter(),
            Field::new("created_by", Kind::User).read_only().nullable().filter(),
            Field::new("modified_at", Kind::DateTime).read_only().filter(),
            Field::new("modified_by", Kind::User).read_only().nullable().filter(),
        ]
    }
    /// Must be sent on create, and not blank.
    pub fn required(mut self) -> Field {
        self.required = true;
        self.not_blank()
    }
    /// May not be an empty text.
    pub fn not_blank(mut self) -> Field {
        self.blank = false;
        self
    }
    /// May be null.
    pub fn nullable(mut self) -> Field {
        self.nullable = true;
        self
    }
    /// Ignored wherever it is sent.
    pub fn read_only(mut self) -> Field {
        self.access = Access::ReadOnly;
        self
    }
    /// Never shown.
    pub fn write_only(mut self) -> Field {
        self.access = Access::WriteOnly;
        self
    }
    /// Ignored by PATCH.
    pub fn create_only(mut self) -> Field {
        self.access = Access::CreateOnly;
        self
    }
    /// Unique by this index of the database; texts ignore case when they are [`Field::folded`].
    pub fn unique(mut self, index: impl Into<Name>) -> Field {
        self.unique = Some(index.into());
        self
    }
    /// Keeps a case-folded copy in `{name}_fold`, for the `i…` predicates and the order.
    pub fn folded(mut self) -> Field {
        self.folded = Some(format!("{}_fold", self.name).into());
        self
    }
    /// May be filtered by.
    pub fn filter(mut self) -> Field {
        self.filter = true;
        self
    }
    /// May be sorted by.
    pub fn sort(mut self) -> Field {
        self.sort = true;
        self
    }
    /// May be filtered by absence.
    pub fn isnull(mut self) -> Field {
        self.isnull = true;
        self
    }
    /// Shown in lists alone.
    pub fn list_only(mut self) -> Field {
        self.in_detail = false;
        self
    }
    /// Shown in details alone.
    pub fn detail_only(mut self) -> Field {
        self.in_list = false;
        self
    }
    /// Tells of a person: goes when the person does, from the administration log too.
    pub fn personal(mut self) -> Field {
        self.is_personal = true;
        self
    }
    /// Shown nowhere: a filter alone.
    pub fn filter_only(self) -> Field {
        let mut field = self.read_only().filter();
        (field.in_list, field.in_detail) = (false, false);
        field
    }
    /// Computed in the database.
    pub fn sql(mut self, expression: &'static str) -> Field {
        self.source = Source::Sql(expression);
        self
    }
    /// Held by rows of another table.
    pub fn members(mut self, table: &'static str, owner: &'static str, item: &'static str) -> Field {
        self.source = Source::Members(Members { table, owner, item });
        self
    }
    /// Stored and shown by the resource itself.
    pub fn stored_by_resource(mut self) -> Field {
        self.source = Source::None;
        self
    }
    /// In this column rather than in one of the field's name.
    pub fn column(mut self, column: impl Into<Name>) -> Field {
        self.source = Source::Column(column.into());
        self
    }
    /// What a create that does not send it stores.
    pub fn default(mut self, value: impl Into<Value>) -> Field {
        self.default = Some(value.into());
        self
    }
    /// Tells another maximal length in OPTIONS.
    pub fn advertise(mut self, max: usize) -> Field {
        self.advertised_max = Some(max);
        self
    }
    /// A text of at least so many characters.
    pub fn min_length(mut self, length: usize) -> Field {
        if let Kind::Text { min, .. } = &mut self.kind {
            *min = length;
        }
        self
    }
    /// A text or secret of these characters alone.
    pub fn charset(mut self, set: Charset) -> Field {
        match &mut self.kind {
            Kind::Text { charset, .. } => *charset = Some(set),
            _ => self.charset = Some(set),
        }
        self
    }
    /// Names that are refused, told in OPTIONS.
    pub fn reserved(mut self, names: &[&'static str]) -> Field {
        self.reserved = names.iter().map(|name| Name::from(*name)).collect();
        self
    }
    /// The display name.
    pub fn label(mut self, label: impl Into<Name>) -> Field {
        self.label = Some(label.into());
        self
    }
    /// Whether a body may set it.
    pub fn is_writable(&self) -> bool {
        self.access != Access::ReadOnly
    }
    /// Whether lists are filtered by its text.
    pub fn is_text(&self) -> bool {
        matches!(self.kind, Kind::Text { .. } | Kind::Email { .. } | Kind::Url { .. })
    }
}

/// A resource: the name by which permissions and the log call it, its address, its table and its fields.
#[derive(Clone)]
pub struct Resource {
    /// The permission resource, and the name in the administration log.
    pub name: Name,
    /// What one of them is called, for OpenAPI (`User`).
    pub title: Name,
    /// The table.
    pub table: Name,
    /// In the order in which they are shown.
    pub fields: Vec<Field>,
    /// `restrictions.limit_items` of OPTIONS.
    pub limit_items: Option<i64>,
    /// `restrictions.limit_items_in_batch` of OPTIONS, and the address that helps to fill a batch.
    pub batch: Option<(i64, Name)>,
    /// Whether lists honour `ordering` and filters at all.
    pub is_selectable: bool,
    /// How many parameters of a request may be filters.
    pub max_filters: usize,
    /// Whether lists begin with the highest id.
    pub is_newest_first: bool,
    by_name: HashMap<Name, usize>,
}

impl Resource {
    /// Declares a resource.
    pub fn new(
        name: impl Into<Name>,
        title: impl Into<Name>,
        table: impl Into<Name>,
        fields: impl IntoIterator<Item = Field>,
    ) -> Resource {
        let fields: Vec<Field> = fields.into_iter().collect();
        let by_name = fields.iter().enumerate().map(|(n, field)| (field.name.clone(), n)).collect();
        Resource {
            name: name.into(),
            title: title.into(),
            table: table.into(),
            fields,
            limit_items: None,
            batch: None,
            is_selectable: true,
            max_filters: MAX_FILTERS,
            is_newest_first: false,
            by_name,
        }
    }
    /// Tells a limit in OPTIONS.
    pub fn limit_items(mut self, limit: i64) -> Resource {
        self.limit_items = Some(limit);
        self
    }
    /// A collection that is changed by arrays of ids.
    pub fn batch(mut self, limit: i64, autocomplete: impl Into<Name>) -> Resource {
        self.batch = Some((limit, autocomplete.into()));
        self
    }
    /// Lists begin with the highest id.
    pub fn newest_first(mut self) -> Resource {
        self.is_newest_first = true;
        self
    }
    /// A collection that takes fewer filters, or more, than others.
    pub fn max_filters(mut self, most: usize) -> Resource {
        self.max_filters = most;
        self
    }
    /// A collection without sorting and filters.
    pub fn unselectable(mut self) -> Resource {
        self.is_selectable = false;
        self
    }
    /// The field of that name.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.by_name.get(name).map(|n| &self.fields[*n])
    }
    /// The field that an index of the database keeps unique.
    pub fn field_of_index(&self, index: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.unique.as_deref() == Some(index))
    }
    /// The fields that have a sort order, filters or a place in lists.
    pub fn columns(&self) -> impl Iterator<Item = &Field> {
        self.fields
            .iter()
            .filter(|field| field.access != Access::WriteOnly && (field.in_list || field.filter || field.sort))
    }
}
