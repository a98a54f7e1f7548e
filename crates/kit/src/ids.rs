//! Types for the ids of a build's rows. A function that gets the id of a user and the id of a record does not compile
//! with the two in the wrong order. Code about rows of any resource uses the number: [`crate::rows`],
//! the administration log and the reactions.

use resource::{CheckedValue, FromValue, Id};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use std::fmt;
use store::{Argument, BorrowedArgument};

/// Declares types of ids. [`Id`] is the generic way to read them from rows, paths and bodies, and to bind them.
macro_rules! id_types {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(i64);

        impl $name {
            /// Not the id of a row: these count from 1.
            pub const NONE: $name = $name(0);

            /// Returns the id with this number.
            pub const fn new(number: i64) -> $name {
                $name(number)
            }
            /// Returns the number.
            pub const fn get(self) -> i64 {
                self.0
            }
        }

        impl Id for $name {
            fn from_number(number: i64) -> $name {
                $name(number)
            }
            fn to_number(self) -> i64 {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl From<$name> for Argument {
            fn from(id: $name) -> Argument {
                Argument::Int(id.0)
            }
        }

        impl From<$name> for BorrowedArgument<'_> {
            fn from(id: $name) -> Self {
                BorrowedArgument::Int(id.0)
            }
        }

        impl From<$name> for Json {
            fn from(id: $name) -> Json {
                id.0.into()
            }
        }

        impl From<$name> for CheckedValue {
            fn from(id: $name) -> CheckedValue {
                CheckedValue::Int(id.0)
            }
        }

        impl FromValue for $name {
            fn from_value(value: &CheckedValue) -> Option<$name> {
                i64::from_value(value).map($name)
            }
        }
    )*};
}

id_types! {
    /// The id of a user.
    UserId;
    /// The id of a group of users.
    GroupId;
    /// A user or a group, as the receiver of an assignment. It is stored as the id of the user, or as the negative id of
    /// the group.
    PrincipalId;
    /// The id of a session. The grant of an agent is a session, too.
    SessionId;
    /// The id of an API key.
    ApiKeyId;
    /// The id of a configuration of single sign-on.
    SingleSignOnId;
    /// The id of a connector of agents.
    ConnectorId;
    /// The id of an object class.
    ClassId;
    /// The id of a field of an object class.
    FieldId;
    /// The id of a record. Ids are unique in a build.
    RecordId;
    /// The id of a permission set of a group.
    GroupSetId;
    /// The id of a permission set of a class.
    ClassSetId;
    /// The id of a record permission set.
    RecordSetId;
    /// The id of a task.
    TaskId;
    /// The id of a stored file.
    FileId;
    /// The id of a document template.
    DocumentTemplateId;
    /// The id of a run, which generates a document.
    RunId;
    /// The id of a repository of custom components.
    ComponentRepositoryId;
    /// The id of an integration.
    IntegrationId;
    /// The id of a job.
    JobId;
    /// The id of a task template.
    TaskTemplateId;
    /// The id of a sequence.
    SequenceId;
    /// The id of a run of a sequence, which answers show by its uuid.
    SequenceRunId;
}

/// The two kinds of principals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Principal {
    User(UserId),
    Group(GroupId),
}

impl PrincipalId {
    /// Returns whether it is a group.
    pub fn is_group(self) -> bool {
        self.0 < 0
    }
    /// Returns the user or the group.
    pub fn to_enum(self) -> Principal {
        if self.is_group() { Principal::Group(GroupId(-self.0)) } else { Principal::User(UserId(self.0)) }
    }
}

impl From<UserId> for PrincipalId {
    fn from(user: UserId) -> PrincipalId {
        PrincipalId(user.0)
    }
}

impl From<GroupId> for PrincipalId {
    fn from(group: GroupId) -> PrincipalId {
        PrincipalId(-group.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn an_id_in_json_is_a_number_or_the_name_of_a_member() {
        let text = r#"{"5":[7,8]}"#;
        let records: BTreeMap<ClassId, Vec<RecordId>> = serde_json::from_str(text).unwrap();
        assert_eq!(records[&ClassId::new(5)], [7, 8].map(RecordId::new));
        assert_eq!(serde_json::to_string(&records).unwrap(), text);
    }

    #[test]
    fn a_principal_is_a_user_or_a_group() {
        let [user, group] = [PrincipalId::from(UserId::new(7)), PrincipalId::from(GroupId::new(7))];
        assert_eq!([user.get(), group.get()], [7, -7]);
        assert_eq!([user.is_group(), group.is_group()], [false, true]);
        assert_eq!(user.to_enum(), Principal::User(UserId::new(7)));
        assert_eq!(group.to_enum(), Principal::Group(GroupId::new(7)));
    }
}
