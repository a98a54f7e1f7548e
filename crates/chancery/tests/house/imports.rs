//! Reads the imports between the files of a crate from the paths in their sources.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::read_to_string;
use std::path::Path;

/// A module or one of its items, by its path in its crate.
pub type ModulePath = Vec<String>;

/// The modules of a crate. Code under `#[cfg(test)]` is omitted.
#[derive(Default)]
pub struct Modules {
    files: BTreeSet<ModulePath>,
    /// The short names in each module, in a file of its own or not: its imports and re-exports.
    short_names: BTreeMap<ModulePath, BTreeMap<String, ModulePath>>,
    /// Each path that a module uses, as written. A re-export does not count as a use.
    paths: Vec<(ModulePath, ModulePath)>,
}

impl Modules {
    pub fn read(folder: &Path) -> Modules {
        let (mut modules, mut folders) = (Modules::default(), vec![folder.to_owned()]);
        while let Some(next) = folders.pop() {
            for path in next.read_dir().unwrap().map(|entry| entry.unwrap().path()) {
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|extension| extension == "rs") {
                    let parts = path.strip_prefix(folder).unwrap().with_extension("");
                    let mut file: ModulePath = parts.iter().map(|part| part.to_str().unwrap().to_owned()).collect();
                    file.pop_if(|last| ["lib", "main", "mod"].contains(&last.as_str()));
                    modules.read_file(&file, &tokens(&read_to_string(&path).unwrap()));
                    modules.files.insert(file);
                }
            }
        }
        modules
    }

    fn read_file(&mut self, file: &ModulePath, tokens: &[String]) {
        let word = |at: usize| tokens.get(at).map_or("", String::as_str);
        let (mut module, mut blocks, mut at) = (file.clone(), Vec::new(), 0);
        while at < tokens.len() {
            match word(at) {
                "mod" if word(at + 2) == "{" => {
                    module.push(word(at + 1).to_owned());
                    blocks.push(true);
                    at += 2;
                }
                "{" => blocks.push(false),
                "}" => {
                    blocks.pop().filter(|is_module| *is_module).and_then(|_| module.pop());
                }
                "use" if word(at + 1) != "<" => {
                    let is_import = at == 0 || !["pub", ")"].contains(&word(at - 1));
                    let (mut found, mut next) = (Vec::new(), at + 1);
                    use_tree(tokens, &mut next, &[], &mut found);
                    for (short, path) in found {
                        self.paths.extend(is_import.then(|| (module.clone(), path.clone())));
                        self.short_names.entry(module.clone()).or_default().insert(short, path);
                    }
                    at = next;
                }
                first if word(at + 1) == "::" && !first.ends_with(|mark| "$>:".contains(mark)) => {
                    let mut path = vec![first.to_owned()];
                    while word(at + 1) == "::" && word(at + 2) != "<" {
                        path.push(word(at + 2).to_owned());
                        at += 2;
                    }
                    self.paths.push((module.clone(), path));
                }
                _ => {}
            }
            at += 1;
        }
    }

    /// Returns the module of the crate that declares the target of a path. `None` for a module.
    fn declares(&self, module: &ModulePath, path: &[String], steps: usize) -> Option<ModulePath> {
        let mut at = module.clone();
        for (number, part) in path.iter().enumerate() {
            let child: ModulePath = at.iter().chain([part]).cloned().collect();
            match part.as_str() {
                "crate" => at.clear(),
                "self" => {}
                "super" => drop(at.pop()),
                _ if self.files.contains(&child) || self.short_names.contains_key(&child) => at = child,
                short => match self.short_names.get(&at).and_then(|names| names.get(short)) {
                    // A crate can have the name of an item that is imported from it, which requires the bound.
                    Some(long) if steps < 10 => {
                        return self.declares(&at, &[long, &path[number + 1..]].concat(), steps + 1);
                    }
                    _ if number == 0 => return None,
                    _ => return Some(at),
                },
            }
        }
        None
    }

    /// Returns the files that each file imports.
    pub fn imports(&self) -> BTreeMap<ModulePath, BTreeSet<ModulePath>> {
        let file = |mut module: ModulePath| {
            while !self.files.contains(&module) {
                module.pop();
            }
            module
        };
        let mut imports: BTreeMap<ModulePath, BTreeSet<ModulePath>> =
            self.files.iter().map(|file| (file.clone(), BTreeSet::new())).collect();
        for (module, path) in &self.paths {
            let (from, to) = (file(module.clone()), self.declares(module, path, 0).map(file));
            imports.get_mut(&from).unwrap().extend(to.filter(|to| *to != from));
        }
        imports
    }
}

/// Reads one path of a `use`, or a list in braces, up to the mark that ends it: each with its short name.
fn use_tree(tokens: &[String], at: &mut usize, before: &[String], imports: &mut Vec<(String, ModulePath)>) {
    let mut path = before.to_vec();
    let mut short = None;
    loop {
        match tokens[*at].as_str() {
            "," | "}" | ";" => break,
            "::" => {}
            "as" => {
                *at += 1;
                short = Some(tokens[*at].clone());
            }
            "{" => {
                while tokens[*at] != "}" {
                    *at += 1;
                    use_tree(tokens, at, &path, imports);
                }
                *at += 1;
                return;
            }
            "self" if !path.is_empty() => {}
            part => path.push(part.to_owned()),
        }
        *at += 1;
    }
    if let Some(last) = path.last().cloned() {
        imports.push((short.unwrap_or(last), path));
    }
}

/// Returns the words and marks of a source, without comments, literals and code under `#[cfg(test)]`.
fn tokens(source: &str) -> Vec<String> {
    let mut tokens: Vec<String> = Vec::new();
    let mut input = source;
    while let Some(first) = input.chars().next() {
        let is_raw = tokens.last().is_some_and(|last| ["r", "br"].contains(&last.as_str()));
        let length = if input.starts_with("//") {
            input.find('\n').unwrap_or(input.len())
        } else if is_raw && (input.starts_with("#\"") || first == '"') {
            let (start, end) = if first == '#' { (2, "\"#") } else { (1, "\"") };
            start + input[start..].find(end).unwrap() + end.len()
        } else if first == '"' {
            literal_length(input)
        } else if first == '\'' {
            // Not a lifetime.
            let is_letter = input[1..].starts_with('\\') || input.chars().nth(2) == Some('\'');
            if is_letter { literal_length(input) } else { 1 }
        } else if first.is_alphanumeric() || first == '_' {
            input.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(input.len())
        } else if input.starts_with("::") {
            2
        } else {
            first.len_utf8()
        };
        let (token, after) = input.split_at(length);
        if !first.is_whitespace() && !token.starts_with("//") && !token.starts_with(['"', '\'']) {
            tokens.push(token.to_owned());
        }
        input = after;
    }
    let mut output: Vec<String> = Vec::new();
    let mut left = tokens.into_iter();
    while let Some(token) = left.next() {
        output.push(token);
        if output.ends_with(&["#", "[", "cfg", "(", "test", ")", "]"].map(str::to_owned)) {
            let mut depth = 0;
            let is_end = |token: &String| {
                depth += match token.as_str() {
                    "{" => 1,
                    "}" => -1,
                    _ => 0,
                };
                depth == 0 && [";", "}"].contains(&token.as_str())
            };
            left.by_ref().find(is_end);
        }
    }
    output
}

/// Returns the length of the literal at the beginning of a text.
fn literal_length(text: &str) -> usize {
    let mark = text.as_bytes()[0];
    let mut is_escaped = true;
    let end = text.bytes().position(|byte| {
        let is_end = byte == mark && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        is_end
    });
    1 + end.unwrap()
}
