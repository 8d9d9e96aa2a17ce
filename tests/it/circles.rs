//! No circle of files: within a crate, what a file imports does not lead back to it; and none of folders, where the
//! crate says so.
//!
//! A path of `use` leads to the file that defines its last name; a module that hands on a name of a
//! child (`pub use child::Name`) is looked through. A module and its own children count as one where
//! the module only declares them and hands on their names.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

const CRATES: [&str; 18] = [
    "engine/budget/src",
    "engine/steps/src",
    "engine/futoin/src",
    "engine/ffi/src",
    "actors/flows/src",
    "actors/executor/src",
    "actors/observe/src",
    "actors/server/src",
    "actors/transport/src",
    "actors/cluster/src",
    "actors/console/src",
    "actors/fabric/src",
    "actors/durable/src",
    "actors/journal/src",
    "actors/postgres/src",
    "actors/simulation/src",
    "executor-demo/src",
    "benches/load/src",
];

/// The crates whose folders are in no circle either: a folder of the root, with all that is in it, counts as one there, and so
/// does a file of the root.
const FOLDERS: [&str; 1] = ["actors/durable/src"];

/// A module by its path from the root of its crate: `["flow", "drive"]`.
type Module = Vec<String>;

/// A file of a crate, as far as it matters here.
#[derive(Default)]
struct Source {
    /// What it imports, as paths from the root of the crate; the last part may be a name or `*`.
    imports: BTreeSet<Vec<String>>,
    /// The names that it hands on or brings in, and where they come from.
    names: BTreeMap<String, Vec<String>>,
}

fn modules(root: &Path, path: &Module, found: &mut BTreeMap<Module, PathBuf>) {
    for entry in fs::read_dir(root).expect("a folder").flatten() {
        let file = entry.path();
        let name = file.file_stem().expect("a name").to_string_lossy().into_owned();
        let inner = || path.iter().cloned().chain([name.clone()]).collect::<Module>();
        if file.is_dir() {
            if file.join("mod.rs").exists() || file.with_extension("rs").exists() {
                modules(&file, &inner(), found);
            }
        } else if file.extension().is_some_and(|ending| ending == "rs") {
            let module =
                if ["mod", "lib", "main"].contains(&&*name) { path.clone() } else { inner() };
            found.insert(module, file);
        }
    }
}

/// The text before the tests of a file, without comments.
fn code(file: &Path) -> String {
    let text = fs::read_to_string(file).expect("text");
    let code = text.lines().take_while(|line| !line.starts_with("#[cfg(test)]"));
    code.map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

/// The paths of one `use`: `a::{b, c::{d as e, *}}` has three, each with the name that it brings in.
fn expand(text: &str, prefix: &[String], paths: &mut Vec<(Vec<String>, String)>) {
    let text = text.trim();
    let (head, group) = match text.find('{') {
        Some(at) => (&text[..at], text[at + 1..].strip_suffix('}')),
        None => (text, None),
    };
    let (head, renamed) = match head.split_once(" as ") {
        Some((head, name)) if group.is_none() => (head, Some(name.trim())),
        _ => (head, None),
    };
    let parts = head.split("::").map(str::trim).filter(|part| !part.is_empty());
    let mut path: Vec<String> = prefix.iter().cloned().chain(parts.map(str::to_owned)).collect();
    let Some(group) = group else {
        if path.last().is_some_and(|last| last == "self") {
            path.pop();
        }
        let name = renamed.map_or_else(|| path.last().cloned().unwrap_or_default(), str::to_owned);
        paths.push((path, name));
        return;
    };
    let (mut depth, mut from) = (0, 0);
    for (at, letter) in group.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                expand(&group[from..at], &path, paths);
                from = at + 1;
            }
            _ => {}
        }
    }
    if !group[from..].trim().is_empty() {
        expand(&group[from..], &path, paths);
    }
}

/// A path of `module` as one from the root of the crate; `None` if it leads out of the crate.
fn resolved(
    path: &[String],
    module: &Module,
    all: &BTreeMap<Module, PathBuf>,
) -> Option<Vec<String>> {
    let (first, rest) = path.split_first()?;
    let mut base = match first.as_str() {
        "crate" => Vec::new(),
        "self" => module.clone(),
        "super" => module[..module.len().checked_sub(1)?].to_vec(),
        child => {
            let inner: Module = module.iter().cloned().chain([child.to_owned()]).collect();
            if !all.contains_key(&inner) {
                return None;
            }
            inner
        }
    };
    for part in rest {
        if part == "super" {
            base.pop();
        } else {
            base.push(part.clone());
        }
    }
    Some(base)
}

fn read(module: &Module, file: &Path, all: &BTreeMap<Module, PathBuf>) -> Source {
    let (code, mut source) = (code(file), Source::default());
    for statement in code.split(';') {
        let Some(at) = statement.rfind("use ") else { continue };
        let before = statement[..at].rsplit('\n').next().unwrap_or_default().trim();
        if !(before.is_empty() || before.starts_with("pub")) {
            continue;
        }
        let mut paths = Vec::new();
        expand(&statement[at + 4..], &[], &mut paths);
        for (path, name) in paths {
            if let Some(path) = resolved(&path, module, all) {
                source.names.insert(name, path.clone());
                source.imports.insert(path);
            }
        }
    }
    source
}

/// The module that defines what `path` names.
fn home(path: &[String], sources: &BTreeMap<Module, Source>, hops: usize) -> Option<Module> {
    let at = (0..=path.len()).rev().find(|&length| sources.contains_key(&path[..length]))?;
    let module = path[..at].to_vec();
    let Some(name) = path.get(at) else { return Some(module) };
    match sources[&module].names.get(name) {
        Some(further) if hops > 0 && further != path => home(further, sources, hops - 1),
        _ => Some(module),
    }
}

/// The modules that `from` leads to, over any number of arrows.
fn reached(from: &Module, arrows: &BTreeMap<Module, BTreeSet<Module>>) -> BTreeSet<Module> {
    let (mut seen, mut open) = (BTreeSet::new(), vec![from.clone()]);
    while let Some(module) = open.pop() {
        for next in &arrows[&module] {
            if seen.insert(next.clone()) {
                open.push(next.clone());
            }
        }
    }
    seen
}

/// The arrows between the folders and files of the root.
fn of_folders(arrows: &BTreeMap<Module, BTreeSet<Module>>) -> BTreeMap<Module, BTreeSet<Module>> {
    let mut folders: BTreeMap<Module, BTreeSet<Module>> = BTreeMap::new();
    for (module, targets) in arrows {
        let folder = module.iter().take(1).cloned().collect::<Module>();
        let targets = targets.iter().map(|target| target.iter().take(1).cloned().collect());
        let outside = targets.filter(|target: &Module| *target != folder);
        folders.entry(folder.clone()).or_default().extend(outside);
    }
    folders
}

/// The arrows between the modules of a crate.
fn arrows(folder: &str) -> BTreeMap<Module, BTreeSet<Module>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let mut files = BTreeMap::new();
    modules(&root, &Vec::new(), &mut files);
    assert!(files.len() > 1, "{folder} has sources");
    let sources: BTreeMap<Module, Source> =
        files.iter().map(|(module, file)| (module.clone(), read(module, file, &files))).collect();
    let mut arrows = BTreeMap::new();
    for (module, source) in &sources {
        let targets = source.imports.iter().filter_map(|path| home(path, &sources, 8));
        // a module that brings in names of its children does not depend on them by that alone
        let targets = targets.filter(|target| target != module && !target.starts_with(module));
        arrows.insert(module.clone(), targets.collect::<BTreeSet<_>>());
    }
    arrows
}

fn circles(folder: &str, arrows: &BTreeMap<Module, BTreeSet<Module>>) -> Vec<String> {
    let in_circles = arrows.keys().filter(|module| reached(module, arrows).contains(*module));
    in_circles
        .map(|module| {
            format!(
                "{folder}: {} -> {:?}",
                module.join("::"),
                arrows[module].iter().map(|target| target.join("::")).collect::<Vec<_>>()
            )
        })
        .collect()
}

#[test]
fn no_file_imports_itself_over_others() {
    let found: Vec<String> =
        CRATES.iter().flat_map(|folder| circles(folder, &arrows(folder))).collect();
    assert!(found.is_empty(), "circles of files:\n{}", found.join("\n"));
}

#[test]
fn no_folder_imports_itself_over_others() {
    let circles = |folder: &&str| circles(folder, &of_folders(&arrows(folder)));
    let found: Vec<String> = FOLDERS.iter().flat_map(circles).collect();
    assert!(found.is_empty(), "circles of folders:\n{}", found.join("\n"));
}
