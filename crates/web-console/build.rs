//! Embeds the files of `dist/`, compressed, under one version for all of them.

use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::{env, fs};

/// The file with the hash of the source of the others. It is not served.
const SOURCE: &str = "source.sha256";

fn main() -> io::Result<()> {
    let folder = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default()).join("dist");
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    println!("cargo::rerun-if-changed={}", folder.display());
    println!("cargo::rerun-if-changed=build.rs");
    let mut names = Vec::new();
    find(&folder, "", &mut names)?;
    names.sort();
    let (mut hash, mut files) = (Sha256::new(), String::new());
    for (n, name) in names.iter().enumerate() {
        let content = fs::read(folder.join(name))?;
        hash.update(format!("{name}\n{}\n", content.len()));
        hash.update(&content);
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(&content)?;
        let compressed = encoder.finish()?;
        // Pictures and fonts are already compressed.
        let is_compressed = compressed.len() < content.len();
        let path = out.join(n.to_string());
        fs::write(&path, if is_compressed { compressed } else { content })?;
        let _ = writeln!(
            files,
            "    File {{ name: {name:?}, is_compressed: {is_compressed}, content: include_bytes!({path:?}), plain: OnceLock::new() }},"
        );
    }
    let digits: String = hash.finalize()[..8].iter().map(|byte| format!("{byte:02x}")).collect();
    let code = format!("const VERSION: &str = \"{digits}\";\nstatic FILES: [File; {}] = [\n{files}];\n", names.len());
    fs::write(out.join("files.rs"), code)
}

/// Finds the files of a folder and its subfolders, by their paths below the first folder.
fn find(folder: &Path, prefix: &str, names: &mut Vec<String>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        let path = format!("{prefix}{name}");
        if entry.file_type()?.is_dir() {
            find(&entry.path(), &format!("{path}/"), names)?;
        } else if path != SOURCE && !name.starts_with('.') {
            names.push(path);
        }
    }
    Ok(())
}
