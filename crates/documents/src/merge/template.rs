//! A template that has been checked: each part with its tags.

use std::io::{Read, Seek};

use super::nodes::{self, Node};
use super::paragraphs;
use super::regions::Rules;
use super::syntax;
use super::tag::Tag;
use crate::docx::identities::FreshNumbers;
use crate::docx::text::{Text, scan};
use crate::docx::{Package, Refused, TAGS, TemplateError};

/// How much of what is wrong with a file a survey tells.
const MOST_WRONG: usize = 100;

/// A template that can be merged as often as needed.
pub struct Template<R> {
    pub(super) package: Package<R>,
    pub(super) tags: Vec<Tag>,
    pub(super) parts: Vec<TaggedPart>,
}

/// A part that has tags; all others are copied.
pub(super) struct TaggedPart {
    pub index: usize,
    pub nodes: Vec<Node>,
    pub numbers: FreshNumbers,
}

/// Reads a template and checks everything that can be checked without knowing the fields of a record.
pub fn open<R: Read + Seek>(file: R) -> Result<Template<R>, TemplateError> {
    let mut package = Package::open(file)?;
    let page_styles = package.page_styles()?;
    of_package(package, Rules::Upload { page_styles: &page_styles })
}

/// Reads a template that was taken before, when some rules were not there.
pub fn open_stored<R: Read + Seek>(file: R) -> Result<Template<R>, TemplateError> {
    of_package(Package::open(file)?, Rules::Stored)
}

fn of_package<R: Read + Seek>(mut package: Package<R>, rules: Rules<'_>) -> Result<Template<R>, TemplateError> {
    let mut tags = Vec::new();
    let mut parts = Vec::new();
    for part in package.texts().to_vec() {
        let in_part = |error: TemplateError| error.in_part(&part.name);
        let xml = package.read_text(part.index).map_err(in_part)?;
        let nodes = compile(&xml, part.place, rules, &mut tags).map_err(in_part)?;
        if !nodes.is_empty() {
            parts.push(TaggedPart { index: part.index, nodes, numbers: FreshNumbers::of(&xml) });
        }
    }
    Ok(Template { package, tags, parts })
}

/// What a file would be as a template.
#[derive(Default)]
pub struct Survey {
    /// The tags of the parts that can be read.
    pub tags: Vec<Tag>,
    /// What is wrong with the others, up to [`MOST_WRONG`].
    pub errors: Vec<TemplateError>,
}

/// Reads as much of a file as can be read, and tells everything that is wrong with the rest. An `Err` says nothing of the
/// file: it could not be read now.
pub fn survey<R: Read + Seek>(file: R) -> Result<Survey, TemplateError> {
    let mut survey = Survey::default();
    let mut package = match Package::open(file) {
        Err(error) if error.kind != Refused::Io => {
            survey.errors.push(error);
            return Ok(survey);
        }
        opened => opened?,
    };
    let page_styles = package.page_styles()?;
    let rules = Rules::Upload { page_styles: &page_styles };
    for part in package.texts().to_vec() {
        if survey.errors.len() >= MOST_WRONG {
            break;
        }
        let found = survey.tags.len();
        let read = match package.read_text(part.index) {
            Err(error) if error.kind == Refused::Io => return Err(error),
            read => read.map_err(|error| vec![error]),
        };
        if let Err(errors) = read.and_then(|xml| part_of_survey(&xml, part.place, rules, &mut survey.tags)) {
            survey.tags.truncate(found);
            survey.errors.extend(errors.into_iter().map(|error| error.in_part(&part.name)));
        }
    }
    survey.errors.truncate(MOST_WRONG);
    Ok(survey)
}

/// Adds the tags of a part, or says all that is wrong with them.
fn part_of_survey(
    xml: &str,
    place: &'static str,
    rules: Rules<'_>,
    tags: &mut Vec<Tag>,
) -> Result<(), Vec<TemplateError>> {
    let text = scan(xml).map_err(|error| vec![error])?;
    let mut wrong = Vec::new();
    for paragraph in &text.paragraphs {
        syntax::find_each(&paragraph.text, 2 * TAGS, MOST_WRONG, &mut wrong);
    }
    if !wrong.is_empty() {
        return Err(wrong.into_iter().map(TemplateError::syntax).collect());
    }
    compile_text(xml, &text, place, rules, tags).map(drop).map_err(|error| vec![error])
}

/// The tags of one part by itself, for those who throw random XML at it.
pub fn tags_of_part(xml: &str) -> Result<Vec<Tag>, TemplateError> {
    let mut tags = Vec::new();
    compile(xml, "document", Rules::Stored, &mut tags)?;
    Ok(tags)
}

/// None where a part has no tags.
fn compile(xml: &str, place: &'static str, rules: Rules<'_>, tags: &mut Vec<Tag>) -> Result<Vec<Node>, TemplateError> {
    compile_text(xml, &scan(xml)?, place, rules, tags)
}

fn compile_text(
    xml: &str,
    text: &Text,
    place: &'static str,
    rules: Rules<'_>,
    tags: &mut Vec<Tag>,
) -> Result<Vec<Node>, TemplateError> {
    if text.paragraphs.is_empty() {
        return Ok(Vec::new());
    }
    let nodes = nodes::compile(xml, text, place, rules, tags)?;
    paragraphs::check_number(tags)?;
    Ok(nodes)
}

impl<R> Template<R> {
    /// All tags in their order, the document's before those of its headers; a tag that comes twice is there twice.
    pub fn tags(&self) -> &[Tag] {
        &self.tags
    }
}
