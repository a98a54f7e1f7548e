//! Finds the notes of a document whose marks are in loops and conditions. Such a note is written once for each written mark, with
//! the values of the pass around the mark.

use std::collections::{HashMap, HashSet};

use super::paragraphs::PlacedTag;
use super::regions::RegionRules;
use crate::docx::TemplateError;
use crate::docx::identities::FreshNumbers;
use crate::docx::notes::{Note, NoteKind, notes};

/// The notes to which a document has marks.
#[derive(Default)]
pub struct MarkedNotes {
    /// The notes by kind and id.
    notes: HashMap<(NoteKind, String), MarkedNote>,
    /// The kinds with a mark in a loop or a condition.
    repeated: HashSet<NoteKind>,
}

struct MarkedNote {
    /// Its number among the marked notes.
    number: usize,
    /// The loop around its first mark, as an index of the template's tags.
    within: Option<usize>,
    /// True if another mark of it is in another loop, or outside of loops.
    has_other_loop: bool,
}

impl MarkedNotes {
    /// Adds a mark that is in a loop whose tag is `loop_tag`, and returns the number of its note.
    pub fn add(&mut self, kind: NoteKind, id: &str, outer_tag: Option<usize>, is_in_region: bool) -> usize {
        if is_in_region {
            self.repeated.insert(kind);
        }
        let next = self.notes.len();
        let new = MarkedNote { number: next, within: outer_tag, has_other_loop: false };
        let note = self.notes.entry((kind, id.to_owned())).or_insert(new);
        note.has_other_loop |= note.within != outer_tag;
        note.number
    }

    /// Returns whether notes of a kind are written once for each of their marks.
    pub fn are_repeated(&self, kind: NoteKind) -> bool {
        self.repeated.contains(&kind)
    }

    /// Returns the notes of a part that are written once for each of their marks.
    pub fn repeated_notes(
        &self,
        xml: &str,
        kind: Option<NoteKind>,
        placed: &[PlacedTag],
        rules: RegionRules<'_>,
    ) -> Result<Vec<RepeatedNote>, TemplateError> {
        let Some(kind) = kind.filter(|kind| self.are_repeated(*kind)) else { return Ok(Vec::new()) };
        let mut repeated = Vec::new();
        for note in notes(xml).into_iter().filter(|note| !note.is_separator) {
            let marked = self.notes.get(&(kind, xml[note.id.clone()].to_owned()));
            if marked.is_some_and(|marked| marked.has_other_loop)
                && matches!(rules, RegionRules::Upload { .. })
                && has_tag(placed, &note)
            {
                let beginning: String = plain_text(&xml[note.source.clone()]).chars().take(60).collect();
                return Err(TemplateError::syntax(format!(
                    "the {} \"{beginning}\" has several marks, which do not stand in the same loop",
                    kind.name()
                )));
            }
            let (number, loop_tag) = marked.map_or((None, None), |marked| (Some(marked.number), marked.within));
            repeated.push(RepeatedNote { note, number, within: loop_tag });
        }
        Ok(repeated)
    }
}

/// A note that is written once for each of its marks.
pub struct RepeatedNote {
    pub note: Note,
    /// Its number among the marked notes. `None` if it has no mark.
    pub number: Option<usize>,
    /// The loop around its mark, as an index of the template's tags.
    pub within: Option<usize>,
}

fn has_tag(placed: &[PlacedTag], note: &Note) -> bool {
    let first = placed.partition_point(|tag| tag.start() < note.source.start);
    placed.get(first).is_some_and(|tag| tag.start() < note.source.end)
}

/// Returns XML without its tags.
fn plain_text(xml: &str) -> String {
    let after_tags = xml.split('<').map(|piece| piece.split_once('>').map_or(piece, |(_, text)| text));
    after_tags.collect::<String>().trim().to_owned()
}

/// Returns the ids for the notes of a part. The ids of its separators remain.
pub fn note_ids(xml: &str) -> FreshNumbers {
    let separators = notes(xml).into_iter().filter(|note| note.is_separator);
    FreshNumbers::excluding(separators.filter_map(|note| xml[note.id].parse().ok()).collect())
}
