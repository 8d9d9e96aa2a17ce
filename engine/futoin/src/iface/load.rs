//! Loading definitions with everything they refer to. Each file is read once.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::compile;
use super::definition::Definition;
use super::error::{LoadError, Rule};
use super::merge::Merged;
use super::name::IfaceVer;
use super::parse::{ParsedInterface, parse};
use super::source::Source;

/// Longest chain of `inherit` and `imports`, so that no set of files exhausts the stack.
const MAX_CHAIN: usize = 32;

/// Loads interface definitions from sources searched in order, and remembers them.
///
/// Two loaders may have different definitions of one interface. Definitions of one loader share their
/// common parts.
#[derive(Debug, Default)]
pub struct Loader {
    sources: Vec<Source>,
    merged: BTreeMap<IfaceVer, Arc<Merged>>,
    definitions: BTreeMap<IfaceVer, Arc<Definition>>,
    /// The definitions being loaded now, outermost first.
    loading: Vec<IfaceVer>,
}

impl Loader {
    /// A loader that searches `sources` in their order.
    #[must_use]
    pub fn new(sources: impl IntoIterator<Item = Source>) -> Self {
        Self { sources: sources.into_iter().collect(), ..Self::default() }
    }

    /// The definition of exactly `id`, checked and compiled with all it inherits and imports
    /// (FTN3 §2).
    ///
    /// # Errors
    /// The first rule that its file, or one it refers to, breaks; also if a file is in no source
    /// or cannot be read. The loader stays usable.
    pub fn load(&mut self, id: &IfaceVer) -> Result<Arc<Definition>, LoadError> {
        if let Some(known) = self.definitions.get(id) {
            return Ok(Arc::clone(known));
        }
        self.loading.clear();
        let file = format!("{}-{}-iface.json", id.iface(), id.version());
        let not_found = |rule| LoadError::new(&file, String::new(), rule);
        let merged = self.merged(id, &not_found)?;
        // Loading the parents first leaves the recursion one level deep.
        let parents = merged.inherits.iter().rev().map(|parent| self.load(parent));
        let mut parents = parents.collect::<Result<Vec<_>, _>>()?;
        parents.reverse();
        let definition = Arc::new(compile::definition(&merged.interface, parents)?);
        self.definitions.insert(id.clone(), Arc::clone(&definition));
        Ok(definition)
    }

    /// `fail` makes an error at the position that refers to `id`.
    fn merged(
        &mut self,
        id: &IfaceVer,
        fail: &dyn Fn(Rule) -> LoadError,
    ) -> Result<Arc<Merged>, LoadError> {
        if let Some(known) = self.merged.get(id) {
            return Ok(Arc::clone(known));
        }
        if let Some(start) = self.loading.iter().position(|loading| loading == id) {
            let chain = self.loading.iter().skip(start).chain([id]).map(ToString::to_string);
            return Err(fail(Rule::Cycle(chain.collect::<Vec<_>>().join(" -> "))));
        }
        if self.loading.len() == MAX_CHAIN {
            return Err(fail(Rule::ChainDepth(MAX_CHAIN)));
        }
        self.loading.push(id.clone());
        let merged = Arc::new(self.merge(self.read(id, fail)?)?);
        self.loading.pop();
        self.merged.insert(id.clone(), Arc::clone(&merged));
        Ok(merged)
    }

    fn read(
        &self,
        id: &IfaceVer,
        fail: &dyn Fn(Rule) -> LoadError,
    ) -> Result<ParsedInterface, LoadError> {
        for source in &self.sources {
            if let Some(found) = source.find(id)? {
                return parse(id, &found.file, &found.text);
            }
        }
        Err(fail(Rule::NotFound(id.clone())))
    }

    fn merge(&mut self, interface: ParsedInterface) -> Result<Merged, LoadError> {
        let file = Arc::clone(&interface.file);
        let (inherit, imports) = (interface.inherit.clone(), interface.imports.clone());
        let mut merged = Merged::new(interface);
        if let Some(parent) = inherit {
            let fail = |rule| file.fail("/inherit".to_owned(), rule);
            merged.inherit(&*self.merged(&parent, &fail)?)?;
        }
        for (index, mixin) in imports.iter().enumerate() {
            let fail = |rule| file.fail(format!("/imports/{index}"), rule);
            merged.import(&*self.merged(mixin, &fail)?)?;
        }
        Ok(merged)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use expect_test::expect;
    use serde_json::{Value, json};

    use super::super::fixture::{error, load, load_texts, named};
    use super::super::name::Version;
    use super::*;

    fn conform_folder() -> PathBuf {
        PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/conform/ifaces"))
    }

    #[test]
    fn every_conform_definition_loads() {
        let mut loader = Loader::new([Source::folder(conform_folder())]);
        let mut count = 0;
        for entry in fs::read_dir(conform_folder()).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let Some(id) = name.strip_suffix("-iface.json") else {
                continue;
            };
            let id: IfaceVer = id.replace('-', ":").parse().unwrap();
            let definition = loader.load(&id).unwrap();
            assert_eq!(definition.id(), &id);
            count += 1;
        }
        assert!(count >= 10, "found {count}");
    }

    #[test]
    fn conform_main_is_what_its_file_says() {
        let mut loader = Loader::new([Source::folder(conform_folder())]);
        let main = loader.load(&"conform.main:1.2".parse().unwrap()).unwrap();
        let function = |name: &str| main.function(name).unwrap();
        assert_eq!(function("big").max_response_size(), 1 << 20);
        assert!(function("slowHeavy").heavy() && function("pipe").rawupload());
        assert_eq!(function("priv").seclvl(), Some("PrivilegedOps"));
        let color = function("types").param("e").unwrap();
        assert!(color.accepts(&json!(7)) && !color.accepts(&json!("7")));
        let derived = loader.load(&"conform.derived:1.1".parse().unwrap()).unwrap();
        let base = loader.load(&"conform.base:1.0".parse().unwrap()).unwrap();
        assert!(Arc::ptr_eq(&derived.inherits()[0], &base), "definitions are shared");
    }

    #[test]
    fn sources_are_searched_in_order() {
        let own = named("futoin.ping:1.0", json!({"funcs": {"own": {}}}));
        let own = Source::texts([("futoin.ping-1.0-iface.json", own.to_string())]);
        let ping: IfaceVer = "futoin.ping:1.0".parse().unwrap();
        let missing = Source::folder("/nowhere");
        for (sources, is_own) in [
            ([missing.clone(), own.clone(), Source::builtin()], true),
            ([missing, Source::builtin(), own], false),
        ] {
            let definition = Loader::new(sources).load(&ping).unwrap();
            assert_eq!(definition.function("own").is_some(), is_own);
        }
    }

    #[test]
    fn what_is_not_there_is_named_with_who_wants_it() {
        let mut out = error(&[named("a.b:1.0", json!({"inherit": "no.such:2.10"}))]);
        out += &error(&[named("a.b:1.0", json!({"imports": ["no.such:2.10"]}))]);
        let missing = IfaceVer::new("no.such", Version::new(1, 0)).unwrap();
        out += &Loader::default().load(&missing).unwrap_err().to_string();
        expect![[r#"
            a.b-1.0-iface.json: /inherit: no.such:2.10 is in no source
            a.b-1.0-iface.json: /imports/0: no.such:2.10 is in no source
            no.such-1.0-iface.json: no.such:1.0 is in no source"#]]
        .assert_eq(&out);
    }

    #[test]
    fn cycles_are_refused_and_the_loader_stays_usable() {
        let chain = |id: &str, field: &str, value: Value| named(id, json!({ field: value }));
        let mut out = error(&[chain("a.a:1.0", "inherit", json!("a.a:1.0"))]);
        let cycle = [
            chain("a.a:1.0", "inherit", json!("a.b:1.0")),
            chain("a.b:1.0", "imports", json!(["a.c:1.0"])),
            chain("a.c:1.0", "imports", json!(["futoin.ping:1.0", "a.b:1.0"])),
        ];
        let texts = cycle.map(|file| {
            (format!("{}-1.0-iface.json", file["iface"].as_str().unwrap()), file.to_string())
        });
        let mut loader = Loader::new([Source::texts(texts), Source::builtin()]);
        for _ in 0..2 {
            out += &loader.load(&"a.a:1.0".parse().unwrap()).unwrap_err().to_string();
            out.push('\n');
        }
        assert!(loader.load(&"futoin.ping:1.0".parse().unwrap()).is_ok());
        expect![[r#"
            a.a-1.0-iface.json: /inherit: refers to itself: a.a:1.0 -> a.a:1.0
            a.c-1.0-iface.json: /imports/1: refers to itself: a.b:1.0 -> a.c:1.0 -> a.b:1.0
            a.c-1.0-iface.json: /imports/1: refers to itself: a.b:1.0 -> a.c:1.0 -> a.b:1.0
        "#]]
        .assert_eq(&out);
    }

    #[test]
    fn long_chains_are_refused() {
        let files: Vec<Value> = (0..5000)
            .map(|n| named(&format!("a.n{n}:1.0"), json!({"inherit": format!("a.n{}:1.0", n + 1)})))
            .collect();
        let text = load(&files).unwrap_err().to_string();
        assert!(text.ends_with("inherits or imports more than 32 levels deep"), "{text}");
    }

    #[test]
    fn a_file_is_bounded_text_under_its_own_name() {
        let folder = std::env::temp_dir().join(format!("iface-test-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let write = |name: &str, bytes: &[u8]| {
            fs::write(folder.join(format!("{name}-1.0-iface.json")), bytes).unwrap();
        };
        write("a.large", &[b' '; (1 << 20) + 1]);
        write("a.binary", &[b'"', 0xff, b'"']);
        write("a.empty", b"");
        write("a.deep", "[".repeat(100_000).as_bytes());
        write("a.other", named("a.b:1.0", json!({})).to_string().as_bytes());
        let mut loader = Loader::new([Source::folder(&folder)]);
        let mut out = String::new();
        for name in ["a.large", "a.binary", "a.empty", "a.deep", "a.other"] {
            let id = IfaceVer::new(name, Version::new(1, 0)).unwrap();
            let error = loader.load(&id).unwrap_err().to_string();
            out += &error.replace(&*folder.to_string_lossy(), "FOLDER");
            out.push('\n');
        }
        fs::remove_dir_all(&folder).unwrap();
        expect![[r#"
            FOLDER/a.large-1.0-iface.json: larger than 1048576 bytes
            FOLDER/a.binary-1.0-iface.json: cannot be read
            FOLDER/a.empty-1.0-iface.json: is not JSON
            FOLDER/a.deep-1.0-iface.json: is not JSON
            FOLDER/a.other-1.0-iface.json: defines a.b:1.0 under a file name for another interface
        "#]]
        .assert_eq(&out);
    }

    #[test]
    fn no_changed_definition_panics() {
        let read = |id: &str| {
            let file = conform_folder().join(format!("{}-iface.json", id.replace(':', "-")));
            let text = fs::read_to_string(file).unwrap();
            (id.to_owned(), serde_json::from_str::<Value>(&text).unwrap())
        };
        let files = ["conform.derived:1.1", "conform.base:1.0", "conform.types:1.0"].map(read);
        let kinds = ["null", "true", "-1", "1e300", r#""""#, r#""T""#, "[]", "[[]]", r#"{"":{}}"#];
        for (index, (_, file)) in files.iter().enumerate() {
            for (pointer, kind) in
                pointers(file).iter().flat_map(|pointer| kinds.map(|kind| (pointer, kind)))
            {
                let mut files = files.clone();
                *files[index].1.pointer_mut(pointer).unwrap() = serde_json::from_str(kind).unwrap();
                let mut files = files.map(|(id, file)| (id, file.to_string()));
                drop(load_texts(files.clone()));
                files.rotate_left(index);
                drop(load_texts(files));
            }
        }
    }

    /// The pointer to every value in `value`.
    fn pointers(value: &Value) -> Vec<String> {
        let inner: Vec<(String, &Value)> = match value {
            Value::Array(items) => {
                items.iter().enumerate().map(|(index, item)| (index.to_string(), item)).collect()
            }
            Value::Object(map) => map.iter().map(|(name, item)| (name.clone(), item)).collect(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
        };
        let below = inner.iter().flat_map(|(key, item)| {
            pointers(item).into_iter().map(move |rest| format!("/{key}{rest}"))
        });
        std::iter::once(String::new()).chain(below).collect()
    }
}
