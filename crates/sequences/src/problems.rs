//! The problems of a definition, each with the path of its place (`docs/reference/sequences.md`).

use resource::Errors;
use serde_json::{Value as Json, json};

/// The maximum number of problems that a sequence shows.
const MAX_SHOWN: usize = 100;

/// The place of a part of a definition, such as `steps`, `approve`, `fields`, `amount`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Place(Vec<String>);

impl Place {
    /// Returns the place of a member of this one.
    pub fn of(&self, name: impl ToString) -> Place {
        let mut path = self.0.clone();
        path.push(name.to_string());
        Place(path)
    }
}

/// The problems of a definition, in the order in which they were found.
#[derive(Debug, Default)]
pub struct Problems(Vec<(Place, String)>);

impl Problems {
    /// Adds a problem, unless its place has it already.
    pub fn add(&mut self, place: &Place, message: impl Into<String>) {
        let problem = (place.clone(), message.into());
        if !self.0.contains(&problem) {
            self.0.push(problem);
        }
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether a place, or a place below it, has a problem.
    pub fn has_any(&self, place: &Place) -> bool {
        self.0.iter().any(|(at, _)| at.0.starts_with(&place.0))
    }

    /// Returns the problems as the errors of a body.
    pub fn to_errors(&self) -> Errors {
        let all: Vec<(&[String], &str)> =
            self.0.iter().map(|(place, message)| (place.0.as_slice(), message.as_str())).collect();
        nested(&all)
    }

    /// Returns the first problems as `[{path, message}]`.
    pub fn to_json(&self) -> Json {
        self.0
            .iter()
            .take(MAX_SHOWN)
            .map(|(place, message)| json!({"path": place.0.join("."), "message": message}))
            .collect()
    }
}

/// Groups problems by the first names of their paths.
fn nested(all: &[(&[String], &str)]) -> Errors {
    let mut errors = Errors::new();
    for (path, message) in all {
        match path {
            [] => errors.add("non_field_errors", *message),
            [name] => errors.add(name, *message),
            [name, ..] if !errors.has_field(name) => {
                let below: Vec<(&[String], &str)> = all
                    .iter()
                    .filter(|(path, _)| path.len() > 1 && path[0] == *name)
                    .map(|(path, message)| (&path[1..], *message))
                    .collect();
                errors.nest(name, nested(&below));
            }
            _ => {}
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_are_nested_by_their_places() {
        let mut problems = Problems::default();
        let (root, steps) = (Place::default(), Place::default().of("steps"));
        problems.add(&root.of("trigger").of("condition"), "This reference does not exist.");
        problems.add(&steps.of("approve").of("fields").of("amount"), "A valid number is required.");
        problems.add(&steps.of("approve").of("fields").of("amount"), "A valid number is required.");
        problems.add(&steps.of(1), "This field is required.");
        let expected = json!({
            "trigger": {"condition": ["This reference does not exist."]},
            "steps": {"approve": {"fields": {"amount": ["A valid number is required."]}}, "1": ["This field is required."]},
        });
        assert_eq!(problems.to_errors().to_json(), expected);
        let first = json!({"path": "trigger.condition", "message": "This reference does not exist."});
        assert_eq!(problems.to_json()[0], first);
    }
}
