//! Reads archives as any program can, and writes others with right sums.

use platform::moving::ArchiveWriter;
use serde_json::Value as Json;
use std::path::Path;

/// The entries of an archive, without those with sums.
#[derive(Clone)]
pub struct Archive(pub Vec<(String, Vec<u8>)>);

impl Archive {
    /// Reads an archive.
    pub fn read(path: &Path) -> Archive {
        let bytes = std::fs::read(path).unwrap();
        let (mut entries, mut at) = (Vec::new(), 0);
        while bytes[at] != 0 {
            let text = |from: usize, length: usize| {
                let part = &bytes[at + from..at + from + length];
                String::from_utf8(part.split(|byte| *byte == 0).next().unwrap().to_vec()).unwrap()
            };
            let (name, size) = (text(0, 100), usize::from_str_radix(&text(124, 12), 8).unwrap());
            at += 512;
            if !name.starts_with("sums/") {
                entries.push((name, bytes[at..at + size].to_vec()));
            }
            at += size.div_ceil(512) * 512;
        }
        Archive(entries)
    }

    /// Writes the entries with their sums and counts. The last entry is the manifest.
    pub fn write(&self, path: &Path) {
        let (manifest, entries) = self.0.split_last().unwrap();
        let mut writer = ArchiveWriter::new(Vec::new());
        for (name, bytes) in entries {
            writer.entry(name, bytes).unwrap();
        }
        let manifest: Json = serde_json::from_slice(&manifest.1).unwrap();
        std::fs::write(path, writer.finish(manifest).unwrap()).unwrap();
    }

    /// Returns the content of the first entry whose name begins like this.
    pub fn entry(&mut self, beginning: &str) -> &mut Vec<u8> {
        let found = self.0.iter_mut().find(|(name, _)| name.starts_with(beginning));
        &mut found.unwrap_or_else(|| panic!("no entry {beginning}")).1
    }

    /// Changes a JSON entry.
    pub fn edit_json(&mut self, beginning: &str, edit: impl FnOnce(&mut Json)) {
        let entry = self.entry(beginning);
        let mut json = serde_json::from_slice(entry).unwrap();
        edit(&mut json);
        *entry = json.to_string().into_bytes();
    }

    /// Returns the place of a column of a table.
    pub fn column(&mut self, table: &str, column: &str) -> usize {
        let header: Json = serde_json::from_slice(self.entry("header.json")).unwrap();
        let table = header["tables"].as_array().unwrap().iter().find(|known| known["name"] == table).unwrap();
        table["columns"].as_array().unwrap().iter().position(|known| known == column).unwrap()
    }

    /// Returns the rows of a table's first entry.
    pub fn rows(&mut self, table: &str) -> Vec<Json> {
        let entry = self.entry(&format!("tables/{table}/"));
        let lines = entry.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        lines.map(|line| serde_json::from_slice(line).unwrap()).collect()
    }

    /// Replaces the rows of a table's first entry.
    pub fn set_rows(&mut self, table: &str, rows: &[Json]) {
        let lines: String = rows.iter().map(|row| format!("{row}\n")).collect();
        *self.entry(&format!("tables/{table}/")) = lines.into_bytes();
    }

    /// Changes the first row of a table.
    pub fn edit_row(&mut self, table: &str, column: &str, value: Json) {
        let at = self.column(table, column);
        let mut rows = self.rows(table);
        rows[0][at] = value;
        self.set_rows(table, &rows);
    }
}
