//! Inheritance and imports: the parts that a definition takes over, and must not change (FTN3 §2.3,
//! §2.7).

mod extension;

use std::collections::BTreeMap;
use std::sync::Arc;

use self::extension::extends;
use super::error::{LoadError, Rule};
use super::name::{IfaceVer, Version};
use super::parse::{FunctionDecl, ParsedInterface, TypeDecl};

/// A definition with everything it inherits and imports.
#[derive(Debug)]
pub(crate) struct Merged {
    pub(crate) interface: ParsedInterface,
    /// Every interface it may be called as, the parent first; imports are not among them.
    pub(crate) inherits: Vec<IfaceVer>,
    /// Each interface imported, directly or not, in its newest version.
    imports: BTreeMap<String, Version>,
}

impl Merged {
    pub(crate) fn new(interface: ParsedInterface) -> Self {
        Self { interface, inherits: Vec::new(), imports: BTreeMap::new() }
    }

    /// Takes over the parent (FTN3 §2.3).
    pub(crate) fn inherit(&mut self, parent: &Self) -> Result<(), LoadError> {
        self.inherits.push(parent.interface.file.id.clone());
        self.inherits.extend(parent.inherits.iter().cloned());
        self.merge(parent)
    }

    /// Takes over a mixin (FTN3 §2.7).
    pub(crate) fn import(&mut self, mixin: &Self) -> Result<(), LoadError> {
        self.add_import(&mixin.interface.file.id)?;
        self.merge(mixin)
    }

    fn merge(&mut self, other: &Self) -> Result<(), LoadError> {
        for (iface, version) in &other.imports {
            self.add_version(iface, *version)?;
        }
        for (name, decl) in &other.interface.types {
            self.merge_type(name, decl)?;
        }
        for (name, decl) in &other.interface.funcs {
            self.merge_function(name, decl)?;
        }
        let requires = &self.interface.requires;
        if let Some(lost) = other.interface.requires.iter().find(|name| !requires.contains(name)) {
            let id = other.interface.file.id.clone();
            return Err(self.fail("/requires".to_owned(), Rule::LostConstraint(lost.clone(), id)));
        }
        Ok(())
    }

    fn add_import(&mut self, id: &IfaceVer) -> Result<(), LoadError> {
        self.add_version(id.iface(), id.version())
    }

    /// Compatible versions of one import merge into the newest (FTN3 §2.7).
    fn add_version(&mut self, iface: &str, version: Version) -> Result<(), LoadError> {
        let known = self.imports.get(iface).copied();
        if let Some(known) = known.filter(|known| known.major != version.major) {
            let rule = Rule::IncompatibleImports(iface.to_owned(), known, version);
            return Err(self.fail("/imports".to_owned(), rule));
        }
        self.imports.insert(iface.to_owned(), known.map_or(version, |known| known.max(version)));
        Ok(())
    }

    fn merge_type(&mut self, name: &str, decl: &TypeDecl) -> Result<(), LoadError> {
        if let Some(own) = self.interface.types.get(name) {
            if own.file.id.iface() != decl.file.id.iface() {
                let other = decl.file.id.clone();
                return Err(self.fail(format!("/types/{name}"), Rule::TypeRedefined(other)));
            }
            if own.file.id.version() >= decl.file.id.version() {
                return Ok(());
            }
        }
        self.interface.types.insert(name.to_owned(), decl.clone());
        Ok(())
    }

    fn merge_function(&mut self, name: &str, decl: &FunctionDecl) -> Result<(), LoadError> {
        if let Some(own) = self.interface.funcs.get(name) {
            let (here, there) = (&own.file.id, &decl.file.id);
            // The same interface along two ways: its newest version counts.
            let keeps = if here.iface() == there.iface() {
                here.version() >= there.version()
            } else {
                let is_own = Arc::ptr_eq(&own.file, &self.interface.file);
                match extends(own, decl) {
                    Ok(()) => true,
                    // Another import may have extended the present one already.
                    Err(_) if !is_own && extends(decl, own).is_ok() => false,
                    Err(difference) => {
                        let rule = Rule::NotAnExtension(there.clone(), difference);
                        return Err(self.fail(format!("/funcs/{name}"), rule));
                    }
                }
            };
            if keeps {
                return Ok(());
            }
        }
        self.interface.funcs.insert(name.to_owned(), decl.clone());
        Ok(())
    }

    fn fail(&self, pointer: String, rule: Rule) -> LoadError {
        self.interface.file.fail(pointer, rule)
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::{Value, json};

    use crate::iface::fixture::{error, load, named};

    fn base() -> Value {
        named(
            "t.base:1.0",
            json!({
                "types": {"Name": {"type": "string", "minlen": 1}},
                "funcs": {
                    "hello": {
                        "params": {"name": "Name", "title": {"type": "string", "default": ""}},
                        "result": {"greeting": "string"},
                    },
                    "bye": {"result": "string", "seclvl": "Info"},
                    "put": {"rawupload": true},
                },
                "requires": ["AllowAnonymous"],
            }),
        )
    }

    /// `t.derived:1.0`, which redeclares one function of `t.base`.
    fn derived(name: &str, func: Value) -> Value {
        let more = json!({
            "inherit": "t.base:1.0", "funcs": {name: func}, "requires": ["AllowAnonymous"],
        });
        named("t.derived:1.0", more)
    }

    #[test]
    fn a_derived_interface_may_only_grow() {
        let mut out = String::new();
        let result = json!({"greeting": "string"});
        let name = json!({"type": "Name"});
        let title = json!({"type": "string", "default": "Dr"});
        for (func, decl) in [
            (
                "hello",
                json!({"params": {"name": name, "title": title, "x": {"type": "any", "default": null}},
                "result": {"more": "any", "greeting": {"type": "string"}}}),
            ),
            ("hello", json!({"params": {"name": name}, "result": result})),
            (
                "hello",
                json!({"params": {"first": {"type": "any", "default": null}, "name": name, "title": title}, "result": result}),
            ),
            ("hello", json!({"params": {"name": "string", "title": title}, "result": result})),
            ("hello", json!({"params": {"name": name, "title": "string"}, "result": result})),
            (
                "hello",
                json!({"params": {"name": name, "title": title, "x": "any"}, "result": result}),
            ),
            (
                "hello",
                json!({"params": {"name": name, "title": title}, "result": {"other": "any"}}),
            ),
            (
                "hello",
                json!({"params": {"name": name, "title": title}, "result": {"greeting": "any"}}),
            ),
            ("hello", json!({"params": {"name": name, "title": title}, "result": "string"})),
            ("hello", json!({"params": {"name": name, "title": title}})),
            ("bye", json!({"result": "string"})),
            ("bye", json!({"result": "string", "seclvl": "Info", "rawupload": true})),
            ("put", json!({"rawupload": true, "rawresult": true})),
            ("put", json!({"rawupload": true, "result": {"n": "integer"}})),
        ] {
            out += &error(&[derived(func, decl), base()]);
        }
        expect![[r#"
            accepted
            t.derived-1.0-iface.json: /funcs/hello: differs from t.base:1.0: parameter title is missing or out of order
            t.derived-1.0-iface.json: /funcs/hello: differs from t.base:1.0: parameter name is missing or out of order
            t.derived-1.0-iface.json: /funcs/hello: differs from t.base:1.0: parameter name has another type
            t.derived-1.0-iface.json: /funcs/hello: differs from t.base:1.0: parameter title lost its default
            t.derived-1.0-iface.json: /funcs/hello: differs from t.base:1.0: the added parameter x has no default
            t.derived-1.0-iface.json: /funcs/hello: differs from t.base:1.0: result variable greeting is missing or has another type
            t.derived-1.0-iface.json: /funcs/hello: differs from t.base:1.0: result variable greeting is missing or has another type
            t.derived-1.0-iface.json: /funcs/hello: differs from t.base:1.0: the result has another form
            t.derived-1.0-iface.json: /funcs/hello: differs from t.base:1.0: the result has another form
            t.derived-1.0-iface.json: /funcs/bye: differs from t.base:1.0: the flag seclvl was changed
            t.derived-1.0-iface.json: /funcs/bye: differs from t.base:1.0: the flag rawupload was changed
            t.derived-1.0-iface.json: /funcs/put: differs from t.base:1.0: the flag rawresult was changed
            t.derived-1.0-iface.json: /funcs/put: differs from t.base:1.0: the result has another form
        "#]].assert_eq(&out);
    }

    #[test]
    fn requirements_and_types_are_taken_over() {
        let mut out = String::new();
        for more in [
            json!({"inherit": "t.base:1.0"}),
            json!({"inherit": "t.base:1.0", "requires": ["AllowAnonymous"], "types": {"Name": "any"}}),
            json!({"imports": ["t.base:1.0"], "requires": ["SecureChannel"]}),
        ] {
            out += &error(&[named("t.derived:1.0", more), base()]);
        }
        expect![[r#"
            t.derived-1.0-iface.json: /requires: lacks the constraint AllowAnonymous of t.base:1.0
            t.derived-1.0-iface.json: /types/Name: type is already defined by t.base:1.0
            t.derived-1.0-iface.json: /requires: lacks the constraint AllowAnonymous of t.base:1.0
        "#]]
        .assert_eq(&out);
    }

    #[test]
    fn a_derived_interface_knows_its_chain() {
        let child = derived("more", json!({"params": {"name": "Name"}}));
        let grandchild = json!({"inherit": "t.derived:1.0", "requires": ["AllowAnonymous"]});
        let files = [named("t.grand:2.3", grandchild), child, base()];
        let definition = load(&files).unwrap();
        let chain: Vec<String> = definition.inherits().iter().map(|i| i.id().to_string()).collect();
        assert_eq!(chain, ["t.derived:1.0", "t.base:1.0"]);
        assert!(definition.function("more").is_some() && definition.function("hello").is_some());
        assert!(definition.inherits()[0].function("more").is_some());
        assert!(definition.inherits()[1].function("more").is_none(), "derived-only");
    }

    #[test]
    fn imports_are_not_inherited() {
        let more = json!({"imports": ["t.base:1.0"], "requires": ["AllowAnonymous"]});
        let definition = load(&[named("t.mix:1.0", more), base()]).unwrap();
        assert!(definition.function("hello").is_some() && definition.inherits().is_empty());
    }

    /// `t.top` imports two mixins, which import `t.types` in versions of their own.
    fn diamond(left: &str, right: &str) -> [Value; 6] {
        let types = |id: &str, max: u32| {
            let types = json!({"Id": {"type": "integer", "max": max}, "Same": "string"});
            named(id, json!({"types": types, "funcs": {"f": {"params": {"id": "Id"}}}}))
        };
        let left = json!({"imports": [left], "types": {"Left": "Id"}});
        let right = json!({"imports": [right], "funcs": {
            "f": {"params": {"id": "Id", "more": {"type": "any", "default": null}}},
        }});
        let top = json!({"imports": ["t.left:1.0", "t.right:1.0"],
            "funcs": {"g": {"params": {"id": "Left"}}}});
        [
            named("t.top:1.0", top),
            named("t.left:1.0", left),
            named("t.right:1.0", right),
            types("t.types:1.2", 2),
            types("t.types:1.10", 10),
            types("t.types:2.0", 20),
        ]
    }

    #[test]
    fn diamonds_merge_into_the_newest_version() {
        for (left, right) in [
            ("t.types:1.2", "t.types:1.10"),
            ("t.types:1.10", "t.types:1.2"),
            ("t.types:1.2", "t.types:1.2"),
        ] {
            let definition = load(&diamond(left, right)).unwrap();
            let id = definition.function("g").unwrap().param("id").unwrap();
            assert_eq!(id.accepts(&json!(10)), left != right, "{left} {right}");
            let extended = definition.function("f").unwrap();
            assert_eq!(extended.params().len(), 2, "the extension wins over the extended");
        }
        expect![[r#"
            t.top-1.0-iface.json: /imports: imports t.types in versions 1.2 and 2.0, which are incompatible
        "#]].assert_eq(&error(&diamond("t.types:1.2", "t.types:2.0")));
    }
}
