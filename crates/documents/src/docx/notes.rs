//! Footnotes and endnotes: finds their marks in a document, and the notes in their part.

use std::ops::Range;

use super::attributes::{attribute, each_tag};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NoteKind {
    Footnote,
    Endnote,
}

impl NoteKind {
    /// Returns the kind of the notes in a part, by the name of the part in messages.
    pub fn note_kind_of_part(place: &str) -> Option<NoteKind> {
        match place {
            "footnotes" => Some(NoteKind::Footnote),
            "endnotes" => Some(NoteKind::Endnote),
            _ => None,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            NoteKind::Footnote => "footnote",
            NoteKind::Endnote => "endnote",
        }
    }
}

/// The mark of a note in a document.
#[derive(Clone, Debug)]
pub struct NoteMark {
    pub kind: NoteKind,
    /// The bytes of the note's id.
    pub id: Range<usize>,
}

/// A note in the part of the notes.
#[derive(Clone, Debug)]
pub struct Note {
    pub id: Range<usize>,
    pub source: Range<usize>,
    /// True for a separator between the text and the notes, which has no mark.
    pub is_separator: bool,
}

/// Returns the marks of a document in the order of its text, at most `most` + 1.
pub fn marks(xml: &str, most: usize) -> Vec<NoteMark> {
    let mut marks = Vec::new();
    each_tag(xml, |name, start, tag| {
        let kind = match name {
            b"footnoteReference" => NoteKind::Footnote,
            b"endnoteReference" => NoteKind::Endnote,
            _ => return,
        };
        if start.is_some() && marks.len() <= most {
            marks.extend(attribute(xml, &tag, "id").map(|id| NoteMark { kind, id }));
        }
    });
    marks
}

/// Returns the notes of a part in the order of the part.
pub fn notes(xml: &str) -> Vec<Note> {
    let (mut notes, mut depth, mut open) = (Vec::new(), 0_usize, None::<Note>);
    each_tag(xml, |name, start, tag| {
        if start.is_none() {
            depth = depth.saturating_sub(1);
        }
        if depth == 1 && matches!(name, b"footnote" | b"endnote") {
            match start {
                Some(_) => {
                    let is_separator = attribute(xml, &tag, "type").is_some_and(|at| &xml[at] != "normal");
                    open = attribute(xml, &tag, "id").map(|id| Note { id, source: tag.clone(), is_separator });
                }
                None => {
                    let ended = open.take();
                    notes.extend(ended.map(|note| Note { source: note.source.start..tag.end, ..note }));
                }
            }
        }
        if start.is_some() {
            depth += 1;
        }
    });
    notes
}
