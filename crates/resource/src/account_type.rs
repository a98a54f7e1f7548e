//! The types of accounts (`docs/reference/users.md`).

/// The type of a user's account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccountType {
    Internal,
    External,
    Full,
    OneTimeCompletion,
    SuperAdmin,
    ServiceInternal,
    ServiceExternal,
}

use AccountType::{External, Full, Internal, OneTimeCompletion, ServiceExternal, ServiceInternal, SuperAdmin};

/// Each type with its name and its display text, in the order in which they are shown.
const ALL: [(AccountType, &str, &str); 7] = [
    (Internal, "internal", "Internal"),
    (External, "external", "External"),
    (Full, "full", "Full"),
    (OneTimeCompletion, "one_time_completion", "1 Time Completion"),
    (SuperAdmin, "super_admin", "Super Admin"),
    (ServiceInternal, "service_internal", "Service Internal"),
    (ServiceExternal, "service_external", "Service External"),
];

impl AccountType {
    /// The names and display texts of all types, for declarations.
    pub const CHOICES: &'static [(&'static str, &'static str)] = &{
        let mut choices = [("", ""); ALL.len()];
        let mut n = 0;
        while n < ALL.len() {
            choices[n] = (ALL[n].1, ALL[n].2);
            n += 1;
        }
        choices
    };

    /// Returns every type.
    pub fn all() -> impl Iterator<Item = AccountType> {
        ALL.iter().map(|(account_type, ..)| *account_type)
    }

    /// Returns the type with a name.
    pub fn parse(name: &str) -> Option<AccountType> {
        ALL.iter().find(|(_, type_name, _)| *type_name == name).map(|(account_type, ..)| *account_type)
    }

    /// Returns the name, as it is stored, sent and returned.
    pub fn name(self) -> &'static str {
        ALL[self as usize].1
    }

    /// Returns the display text.
    pub fn text(self) -> &'static str {
        ALL[self as usize].2
    }

    /// Returns whether accounts of the type have all permissions, so that only such accounts may create or change them.
    pub fn is_super(self) -> bool {
        matches!(self, SuperAdmin | ServiceInternal)
    }

    /// Returns whether it is the type of an account for a program.
    pub fn is_service(self) -> bool {
        matches!(self, ServiceInternal | ServiceExternal)
    }

    /// Returns whether permission sets of the type `everyone` apply: not to services and one-time accounts.
    pub fn is_standard(self) -> bool {
        !self.is_service() && self != AccountType::OneTimeCompletion
    }

    /// Returns whether accounts of the type do not need activation.
    pub fn is_active_from_creation(self) -> bool {
        self.is_service() || self == OneTimeCompletion
    }

    /// Returns whether the owner of an account of the type sets a password by a mailed link.
    pub fn is_invited(self) -> bool {
        !self.is_active_from_creation()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_is_found_by_its_name() {
        for account_type in AccountType::all() {
            assert_eq!(AccountType::parse(account_type.name()), Some(account_type));
        }
        assert_eq!(AccountType::parse("robot"), None);
    }
}
