//! The parameters of a request.

/// The decoded parameters of a request, in the order in which they were sent. They use little more
/// memory than the sent bytes, because any client may send many.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Query {
    /// All names and values, one after the other.
    text: String,
    /// The positions in `text` at which each name and its value end.
    ends: Vec<(u32, u32)>,
}

impl Query {
    /// Reads the part of an address after the question mark.
    pub fn parse(text: &str) -> Query {
        Query::parse_first(text, usize::MAX)
    }
    /// Reads at most `most` parameters, like [`Query::parse`].
    pub fn parse_first(text: &str, most: usize) -> Query {
        let mut query = Query::default();
        for (name, value) in form_urlencoded::parse(text.as_bytes()).take(most) {
            query.push(&name, &value);
        }
        query.text.shrink_to_fit();
        query.ends.shrink_to_fit();
        query
    }
    /// Returns the query without the parameters of these names.
    pub fn without_parameters(&self, names: &[&str]) -> Query {
        let mut query = Query::default();
        self.pairs().filter(|(name, _)| !names.contains(name)).for_each(|(name, value)| query.push(name, value));
        query
    }
    fn push(&mut self, name: &str, value: &str) {
        let ends = [name, value].map(|part| {
            self.text.push_str(part);
            // The first line of a request is far shorter than this bound, and a form is too.
            u32::try_from(self.text.len()).unwrap_or(u32::MAX)
        });
        self.ends.push((ends[0], ends[1]));
    }
    /// Returns the value of a parameter; the last one if it was sent more than once.
    pub fn last_value(&self, name: &str) -> Option<&str> {
        self.pairs().rev().find(|(key, _)| *key == name).map(|(_, value)| value)
    }
    /// Returns the names and values of all parameters.
    pub fn pairs(&self) -> impl DoubleEndedIterator<Item = (&str, &str)> {
        (0..self.ends.len()).map(|at| {
            let begin = at.checked_sub(1).and_then(|before| self.ends.get(before)).map_or(0, |(_, end)| *end as usize);
            let (name, value) = self.ends[at];
            (&self.text[begin..name as usize], &self.text[name as usize..value as usize])
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_decoded_in_the_order_sent() {
        let query = Query::parse("a=1&&b=%C3%A4+x%3D&a=%ff&c&=d");
        let pairs: Vec<_> = query.pairs().collect();
        assert_eq!(pairs, [("a", "1"), ("b", "ä x="), ("a", "\u{fffd}"), ("c", ""), ("", "d")]);
        assert_eq!(
            (query.last_value("a"), query.last_value("c"), query.last_value("d")),
            (Some("\u{fffd}"), Some(""), None)
        );
        assert_eq!(Query::parse_first("a=1&b=2", 1), Query::parse("a=1"));
        assert_eq!(Query::parse("").pairs().count(), 0);
        assert_eq!(query.without_parameters(&["a", ""]), Query::parse("b=%C3%A4+x%3D&c"));
    }
}
