//! Every public item says which section of the specification it follows, where there is one.

use std::fs;
use std::path::{Path, PathBuf};

/// Files about subjects that the specification leaves to the host.
const BEYOND: [&str; 6] =
    ["time.rs", "observe.rs", "location.rs", "replay.rs", "random.rs", "sim/"];

/// The marks of a section of a specification.
const MARKS: [&str; 2] = ["FTN12 §", "FTN3 §"];

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("the folder is there") {
        let path = entry.expect("it can be read").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            found.push(path);
        }
    }
}

/// The name of the public item that a line declares.
fn declared(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix("pub ")?;
    let rest = rest.strip_prefix("const fn ").or_else(|| {
        ["fn ", "struct ", "enum ", "trait ", "type ", "const "]
            .into_iter()
            .find_map(|keyword| rest.strip_prefix(keyword))
    })?;
    rest.split(|c: char| !c.is_alphanumeric() && c != '_').next()
}

/// The public items of a file without a mark. The mark may be in the docs of the item, of its `impl`
/// or type, of its module, or of the file.
fn unmarked(text: &str) -> Vec<String> {
    let is_marked = |line: &str| MARKS.iter().any(|mark| line.contains(mark));
    if text.lines().take_while(|line| line.starts_with("//!")).any(is_marked) {
        return Vec::new();
    }
    let (mut own, mut around) = (false, false);
    let mut marked_types: Vec<&str> = Vec::new();
    let mut unmarked = Vec::new();
    for line in text.lines().take_while(|line| !line.starts_with("#[cfg(test)]")) {
        let trimmed = line.trim_start();
        if trimmed.starts_with("///") {
            own |= is_marked(trimmed);
        } else if line.starts_with("impl") || line.starts_with("pub mod") {
            around = own || marked_types.iter().any(|name| line.contains(name));
            own = false;
        } else if let Some(name) = declared(line) {
            let is_inside = line.starts_with(' ');
            if !is_inside && own {
                marked_types.push(name);
            }
            if !(own || is_inside && around) {
                unmarked.push(name.to_owned());
            }
            own = false;
        } else if !trimmed.starts_with("#[") && !trimmed.is_empty() {
            own = false;
        }
    }
    unmarked
}

#[test]
fn every_public_item_names_its_section() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    let mut missing = Vec::new();
    for file in files {
        let name = file.strip_prefix(&root).expect("below the root").to_string_lossy();
        if BEYOND.iter().any(|beyond| name.starts_with(beyond)) {
            continue;
        }
        let text = fs::read_to_string(&file).expect("sources are text");
        let names = unmarked(&text);
        missing.extend(names.into_iter().map(|name| format!("{}: {name}", file.display())));
    }
    assert!(missing.is_empty(), "without a section:\n{}", missing.join("\n"));
}
