//! Finds the tags of a part and their bytes, across all runs into which a word processor has split them.

use std::ops::Range;

use super::syntax::{self, Syntax};
use super::tag::TemplateTag;
use crate::docx::text::ParagraphText;
use crate::docx::{TAGS, TemplateError};

/// A tag with its position in a part.
pub struct PlacedTag {
    pub syntax: Syntax,
    /// Its paragraph in `ParagraphText::paragraphs`.
    pub paragraph: usize,
    /// The bytes of the tag, each with the `w:t` around them. There is at least one piece.
    pub pieces: Vec<(Range<usize>, usize)>,
}

impl PlacedTag {
    pub fn start(&self) -> usize {
        self.pieces[0].0.start
    }

    pub fn end(&self) -> usize {
        self.pieces[self.pieces.len() - 1].0.end
    }

    pub fn first_text(&self) -> usize {
        self.pieces[0].1
    }

    pub fn last_text(&self) -> usize {
        self.pieces[self.pieces.len() - 1].1
    }
}

/// Returns all tags of a part in the order of its XML, and for each paragraph whether it contains only tags.
pub fn tags(text: &ParagraphText) -> Result<(Vec<PlacedTag>, Vec<bool>), TemplateError> {
    let mut placed = Vec::new();
    let mut only_tags = Vec::new();
    for (index, paragraph) in text.paragraphs.iter().enumerate() {
        // The tags that end a loop or a condition can double the number.
        let most = 2 * TAGS - placed.len();
        let spans = syntax::find(&paragraph.text, most).map_err(TemplateError::syntax)?;
        if spans.len() > most {
            return Err(too_many());
        }
        let mut at = 0;
        let mut blank = paragraph.beside.is_none();
        for tag in &spans {
            blank &= is_blank(&paragraph.text[at..tag.start]) && !matches!(tag.syntax, Syntax::Value(..));
            at = tag.end;
        }
        only_tags.push(blank && is_blank(&paragraph.text[at..]));
        for tag in spans {
            let pieces = paragraph.sources(tag.start..tag.end);
            if pieces.is_empty() {
                return Err(TemplateError::syntax("unbalanced or unknown syntax"));
            }
            placed.push(PlacedTag { syntax: tag.syntax, paragraph: index, pieces });
        }
    }
    placed.sort_by_key(PlacedTag::start);
    Ok((placed, only_tags))
}

/// Refuses a template whose parts have too many tags together.
pub fn check_number(tags: &[TemplateTag]) -> Result<(), TemplateError> {
    if tags.len() > TAGS { Err(too_many()) } else { Ok(()) }
}

fn too_many() -> TemplateError {
    TemplateError::too_large(format!("more than {TAGS} tags"))
}

fn is_blank(text: &str) -> bool {
    text.trim().is_empty()
}
