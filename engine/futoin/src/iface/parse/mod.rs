//! The text of a definition into declarations: every field known, every name and form checked.

mod types;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

pub(super) use self::types::MAX_ITEMS;
use super::{
    decl::{FuncDecl, Module, Origin, ParamDecl, ResultDecl},
    error::{LoadError, Rule},
    name::{IfaceVer, Version, is_constraint, is_error, is_function, is_variable},
    node::{Cursor, Node},
};

/// FTN3 §1.10: the limit of a request or a response without one of its own, in bytes.
const SAFE_PAYLOAD: usize = 64 << 10;

/// What no function's name may begin with (FTN3 §2.2.2).
const RESERVED: &str = "futoin";

/// The newest revision of FTN3 whose features are all known here.
const NEWEST_MINOR: u32 = 9;

/// Reads the definition of `id` (FTN3 §2.1).
///
/// # Errors
/// The first place that breaks a rule.
pub(super) fn parse(id: &IfaceVer, file: &str, text: &str) -> Result<Module, LoadError> {
    let syntax = |error| LoadError::new(file, String::new(), Rule::Syntax(error));
    let node: Node = serde_json::from_str(text).map_err(syntax)?;
    let root = Cursor::root(file, &node);
    // The revision first: it decides which of the other fields are allowed.
    let revision = revision(&root)?;
    let origin = Arc::new(Origin { id: id.clone(), file: file.to_owned(), revision });
    let parser = Parser { origin: &origin };
    let mut module = Module {
        origin: Arc::clone(&origin),
        types: BTreeMap::new(),
        funcs: BTreeMap::new(),
        requires: Vec::new(),
        inherit: None,
        imports: Vec::new(),
    };
    let (mut iface, mut version) = (None, None);
    for field in root.fields()? {
        match field.name() {
            "iface" => iface = Some(field.text()?),
            "version" => version = Some(parse_version(&field)?),
            "ftn3rev" => {}
            "desc" => drop(field.text()?),
            "types" => module.types = parser.types(&field)?,
            "funcs" => module.funcs = parser.funcs(&field)?,
            "requires" => module.requires = parser.requires(&field)?,
            "inherit" => module.inherit = Some(reference(&field)?),
            "imports" => module.imports = parser.imports(&field)?,
            _ => return Err(field.fail(Rule::UnknownField)),
        }
    }
    let iface = iface.ok_or_else(|| root.fail(Rule::Missing("iface")))?;
    let version = version.ok_or_else(|| root.fail(Rule::Missing("version")))?;
    if iface != id.iface() || version != id.version() {
        return Err(root.fail(Rule::OtherInterface(format!("{iface}:{version}"))));
    }
    Ok(module)
}

fn revision(root: &Cursor<'_>) -> Result<Version, LoadError> {
    // FTN3 §2.6: a definition that does not say is of the first revision.
    let Some(field) = root.field("ftn3rev") else {
        return Ok(Version::new(1, 0));
    };
    let revision = parse_version(&field)?;
    if revision.major != 1 || revision.minor > NEWEST_MINOR {
        return Err(field.fail(Rule::Revision(revision)));
    }
    Ok(revision)
}

fn parse_version(field: &Cursor<'_>) -> Result<Version, LoadError> {
    field.text()?.parse().map_err(|_| field.fail(Rule::Expected("a version like 1.2")))
}

fn reference(field: &Cursor<'_>) -> Result<IfaceVer, LoadError> {
    field.text()?.parse().map_err(|_| field.fail(Rule::Expected("a name like some.iface:1.2")))
}

/// Reads the parts of one file, which all belong to the same origin.
struct Parser<'a> {
    origin: &'a Arc<Origin>,
}

impl Parser<'_> {
    fn imports(&self, list: &Cursor<'_>) -> Result<Vec<IfaceVer>, LoadError> {
        self.gate(list, 1, "imports")?;
        names(list, |item| reference(item).map(drop))?;
        list.items()?.map(|item| reference(&item)).collect()
    }

    fn requires(&self, list: &Cursor<'_>) -> Result<Vec<String>, LoadError> {
        names(list, |item| match item.text()? {
            "BiDirectChannel" => self.gate(item, 1, "BiDirectChannel"),
            "MessageSignature" => self.gate(item, 2, "MessageSignature"),
            "BinaryData" => self.gate(item, 9, "BinaryData"),
            other if is_constraint(other) => Ok(()),
            _ => Err(item.fail(Rule::Expected("a name of letters and digits"))),
        })
    }

    fn funcs(&self, map: &Cursor<'_>) -> Result<BTreeMap<String, FuncDecl>, LoadError> {
        let mut funcs = BTreeMap::new();
        for entry in map.fields()? {
            if !is_function(entry.name()) {
                return Err(entry.fail(Rule::Expected("named like someFunc")));
            }
            if entry.name().starts_with(RESERVED) {
                return Err(entry.fail(Rule::Expected("named without the reserved prefix futoin")));
            }
            funcs.insert(entry.name().to_owned(), self.func(&entry)?);
        }
        Ok(funcs)
    }

    fn func(&self, entry: &Cursor<'_>) -> Result<FuncDecl, LoadError> {
        let mut func = FuncDecl {
            origin: Arc::clone(self.origin),
            params: Vec::new(),
            result: ResultDecl::Nothing,
            throws: Vec::new(),
            heavy: false,
            seclvl: None,
            rawupload: false,
            rawresult: false,
            maxreqsize: SAFE_PAYLOAD,
            maxrspsize: SAFE_PAYLOAD,
        };
        for field in entry.fields()? {
            match field.name() {
                "params" => func.params = self.variables(&field, true)?,
                "result" => func.result = self.result(&field)?,
                "throws" => func.throws = names(&field, error_name)?,
                "rawupload" => func.rawupload = field.flag()?,
                "rawresult" => func.rawresult = field.flag()?,
                "heavy" => {
                    self.gate(&field, 1, "heavy")?;
                    func.heavy = field.flag()?;
                }
                "seclvl" => {
                    self.gate(&field, 3, "seclvl")?;
                    func.seclvl = Some(field.text()?.to_owned());
                }
                "maxreqsize" => func.maxreqsize = self.size(&field)?,
                "maxrspsize" => func.maxrspsize = self.size(&field)?,
                "desc" => drop(field.text()?),
                _ => return Err(field.fail(Rule::UnknownField)),
            }
        }
        let answers = func.rawresult || !matches!(func.result, ResultDecl::Nothing);
        if !func.throws.is_empty() && !answers {
            return Err(entry.fail(Rule::ThrowsWithoutResult));
        }
        Ok(func)
    }

    fn result(&self, field: &Cursor<'_>) -> Result<ResultDecl, LoadError> {
        match field.node() {
            Node::Object(variables) if variables.is_empty() => Ok(ResultDecl::Nothing),
            Node::Object(_) => Ok(ResultDecl::Variables(self.variables(field, false)?)),
            Node::Scalar(_) => {
                self.gate(field, 7, "a result that is a type")?;
                Ok(ResultDecl::Whole(self.named(field)?))
            }
            // FTN3 §1.8.5 has no alternatives here.
            Node::List(_) => Err(field.fail(Rule::Expected("an object or the name of a type"))),
        }
    }

    fn variables(&self, map: &Cursor<'_>, defaults: bool) -> Result<Vec<ParamDecl>, LoadError> {
        map.fields()?.map(|entry| self.variable(&entry, defaults)).collect()
    }

    fn variable(&self, entry: &Cursor<'_>, defaults: bool) -> Result<ParamDecl, LoadError> {
        let name = variable_name(entry)?;
        if let Some(kind) = self.shortcut(entry)? {
            return Ok(ParamDecl { name, kind, default: None });
        }
        let (mut kind, mut default) = (None, None);
        for field in entry.fields()? {
            match field.name() {
                "type" => kind = Some(self.named(&field)?),
                "default" if defaults => default = Some(field.node().to_value()),
                "desc" => drop(field.text()?),
                _ => return Err(field.fail(Rule::UnknownField)),
            }
        }
        let kind = kind.ok_or_else(|| entry.fail(Rule::Missing("type")))?;
        Ok(ParamDecl { name, kind, default })
    }

    /// `maxreqsize` and `maxrspsize` into bytes: digits and B, K or M (FTN3 §1.10.1).
    fn size(&self, field: &Cursor<'_>) -> Result<usize, LoadError> {
        self.gate(field, 8, "a size limit")?;
        let text = field.text()?;
        let (digits, shift) = match text.as_bytes().last() {
            Some(b'B') => (text.strip_suffix('B'), 0),
            Some(b'K') => (text.strip_suffix('K'), 10),
            Some(b'M') => (text.strip_suffix('M'), 20),
            _ => (None, 0),
        };
        let size = digits
            .filter(|digits| digits.starts_with(|first| matches!(first, '1'..='9')))
            .and_then(|digits| digits.parse::<usize>().ok())
            .and_then(|size| size.checked_mul(1 << shift));
        size.ok_or_else(|| field.fail(Rule::Expected("a size like 100B, 64K or 2M")))
    }

    fn gate(&self, at: &Cursor<'_>, since: u32, feature: &'static str) -> Result<(), LoadError> {
        self.origin.gate(since, feature).map_err(|rule| at.fail(rule))
    }
}

fn variable_name(entry: &Cursor<'_>) -> Result<String, LoadError> {
    if !is_variable(entry.name()) {
        return Err(entry.fail(Rule::Expected("named like some_name")));
    }
    Ok(entry.name().to_owned())
}

fn error_name(item: &Cursor<'_>) -> Result<(), LoadError> {
    if is_error(item.text()?) {
        Ok(())
    } else {
        Err(item.fail(Rule::Expected("named like SomeError or SOME_ERROR")))
    }
}

/// A list of different strings, each of which passes `check`.
fn names(
    list: &Cursor<'_>,
    check: impl Fn(&Cursor<'_>) -> Result<(), LoadError>,
) -> Result<Vec<String>, LoadError> {
    let mut seen = BTreeSet::new();
    let mut names = Vec::new();
    for item in list.items()? {
        check(&item)?;
        let name = item.text()?;
        if !seen.insert(name) {
            return Err(item.fail(Rule::Repeated));
        }
        names.push(name.to_owned());
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::{Value, json};

    use super::super::fixture::{errors, iface, load};

    #[test]
    fn the_form_of_a_definition_is_checked() {
        let cases = [
            json!({"ftn3rev": "2.0"}),
            json!({"ftn3rev": "1.10"}),
            json!({"ftn3rev": 1.9}),
            json!({"extra": 1}),
            json!({"desc": 1}),
            json!({"inherit": "a.b"}),
            json!({"imports": "a.b:1.0"}),
            json!({"imports": ["A.b:1.0"]}),
            json!({"imports": ["c.d:1.0", "c.d:1.0"]}),
            json!({"requires": ["AllowAnonymous", "AllowAnonymous"]}),
            json!({"requires": ["Not-this"]}),
            json!({"funcs": []}),
            json!({"funcs": {"Bad": {}}}),
            json!({"types": {"bad": "any"}}),
        ];
        expect![[r#"
            a.b-1.0-iface.json: /ftn3rev: FTN3 revision 2.0 is not supported, 1.0 to 1.9 are
            a.b-1.0-iface.json: /ftn3rev: FTN3 revision 1.10 is not supported, 1.0 to 1.9 are
            a.b-1.0-iface.json: /ftn3rev: must be a string
            a.b-1.0-iface.json: /extra: is not a field FTN3 knows here
            a.b-1.0-iface.json: /desc: must be a string
            a.b-1.0-iface.json: /inherit: must be a name like some.iface:1.2
            a.b-1.0-iface.json: /imports: must be a list
            a.b-1.0-iface.json: /imports/0: must be a name like some.iface:1.2
            a.b-1.0-iface.json: /imports/1: is listed twice
            a.b-1.0-iface.json: /requires/1: is listed twice
            a.b-1.0-iface.json: /requires/0: must be a name of letters and digits
            a.b-1.0-iface.json: /funcs: must be an object
            a.b-1.0-iface.json: /funcs/Bad: must be named like someFunc
            a.b-1.0-iface.json: /types/bad: must be named like SomeType
        "#]]
        .assert_eq(&errors(cases.map(iface)));
    }

    #[test]
    fn the_form_of_functions_is_checked() {
        let cases = [
            json!(null),
            json!({"result": "integer", "maxReqSize": "1K"}),
            json!({"params": {"Bad": "any"}}),
            json!({"params": {"a": {"default": 1}}}),
            json!({"params": {"a": {"type": "integer", "min": 1}}}),
            json!({"params": {"a": {"type": ["integer"]}}}),
            json!({"params": {"a": []}}),
            json!({"params": {"a": ["any", "any"]}}),
            json!({"params": {"a": ["any", 5]}}),
            json!({"params": {"a": "float"}}),
            json!({"params": {"a": 5}}),
            json!({"params": ["a"]}),
            json!({"result": ["integer", "string"]}),
            json!({"result": {"a": {"type": "any", "default": 1}}}),
            json!({"throws": ["E"]}),
            json!({"result": "any", "throws": "E"}),
            json!({"result": "any", "throws": ["bad"]}),
            json!({"result": "any", "throws": ["E", "E"]}),
            json!({"heavy": "yes"}),
            json!({"seclvl": 1}),
            json!({"maxreqsize": 5}),
            json!({"maxreqsize": "0K"}),
            json!({"maxreqsize": "1T"}),
            json!({"maxrspsize": "99999999999999999999M"}),
            json!({"maxrspsize": "99999999999999M"}),
            json!({"maxrspsize": "1G"}),
            json!({"maxrspsize": "100"}),
        ];
        expect![[r#"
            a.b-1.0-iface.json: /funcs/f: must be an object
            a.b-1.0-iface.json: /funcs/f/maxReqSize: is not a field FTN3 knows here
            a.b-1.0-iface.json: /funcs/f/params/Bad: must be named like some_name
            a.b-1.0-iface.json: /funcs/f/params/a: has no type
            a.b-1.0-iface.json: /funcs/f/params/a/min: is not a field FTN3 knows here
            a.b-1.0-iface.json: /funcs/f/params/a/type: must be a string
            a.b-1.0-iface.json: /funcs/f/params/a: must be a list of at least one type
            a.b-1.0-iface.json: /funcs/f/params/a/1: is listed twice
            a.b-1.0-iface.json: /funcs/f/params/a/1: must be a string
            a.b-1.0-iface.json: /funcs/f/params/a: unknown type float
            a.b-1.0-iface.json: /funcs/f/params/a: must be a string
            a.b-1.0-iface.json: /funcs/f/params: must be an object
            a.b-1.0-iface.json: /funcs/f/result: must be an object or the name of a type
            a.b-1.0-iface.json: /funcs/f/result/a/default: is not a field FTN3 knows here
            a.b-1.0-iface.json: /funcs/f: throws without a result, so the caller could not see it
            a.b-1.0-iface.json: /funcs/f/throws: must be a list
            a.b-1.0-iface.json: /funcs/f/throws/0: must be named like SomeError or SOME_ERROR
            a.b-1.0-iface.json: /funcs/f/throws/1: is listed twice
            a.b-1.0-iface.json: /funcs/f/heavy: must be true or false
            a.b-1.0-iface.json: /funcs/f/seclvl: must be a string
            a.b-1.0-iface.json: /funcs/f/maxreqsize: must be a string
            a.b-1.0-iface.json: /funcs/f/maxreqsize: must be a size like 100B, 64K or 2M
            a.b-1.0-iface.json: /funcs/f/maxreqsize: must be a size like 100B, 64K or 2M
            a.b-1.0-iface.json: /funcs/f/maxrspsize: must be a size like 100B, 64K or 2M
            a.b-1.0-iface.json: /funcs/f/maxrspsize: must be a size like 100B, 64K or 2M
            a.b-1.0-iface.json: /funcs/f/maxrspsize: must be a size like 100B, 64K or 2M
            a.b-1.0-iface.json: /funcs/f/maxrspsize: must be a size like 100B, 64K or 2M
        "#]]
        .assert_eq(&errors(cases.map(|func| iface(json!({"funcs": {"f": func}})))));
    }

    #[test]
    fn the_form_of_types_is_checked() {
        let cases = [
            json!({"min": 1}),
            json!({"type": "integer", "min": "1"}),
            json!({"type": "string", "minlen": -1}),
            json!({"type": "string", "minlen": 1.5}),
            json!({"type": "map", "fields": {"Bad": "any"}}),
            json!({"type": "map", "fields": {"a": {"optional": true}}}),
            json!({"type": "map", "fields": {"a": {"type": "any", "optional": 1}}}),
            json!({"type": "map", "fields": {"a": {"type": "any", "default": 1}}}),
            json!({"type": "enum", "items": []}),
            json!({"type": "enum", "items": ["a", "a"]}),
            json!({"type": "enum", "items": [1.5]}),
            json!({"type": "enum", "items": [2_147_483_648_i64]}),
            json!({"type": "set", "items": (0..1001).collect::<Vec<_>>()}),
        ];
        expect![[r#"
            a.b-1.0-iface.json: /types/T: has no type
            a.b-1.0-iface.json: /types/T/min: must be a number
            a.b-1.0-iface.json: /types/T/minlen: must be a whole number, 0 or more
            a.b-1.0-iface.json: /types/T/minlen: must be a whole number, 0 or more
            a.b-1.0-iface.json: /types/T/fields/Bad: must be named like some_name
            a.b-1.0-iface.json: /types/T/fields/a: has no type
            a.b-1.0-iface.json: /types/T/fields/a/optional: must be true or false
            a.b-1.0-iface.json: /types/T/fields/a/default: is not a field FTN3 knows here
            a.b-1.0-iface.json: /types/T/items: must be a list of at least one item
            a.b-1.0-iface.json: /types/T/items: is listed twice
            a.b-1.0-iface.json: /types/T/items/0: must be an integer or a string
            a.b-1.0-iface.json: /types/T/items/0: must be an integer or a string
            a.b-1.0-iface.json: /types/T/items: must be a list of at most 1000 items
        "#]]
        .assert_eq(&errors(cases.map(|kind| iface(json!({"types": {"T": kind}})))));
    }

    #[test]
    fn features_need_their_revision() {
        let rev = |minor: u32, more: Value| {
            let mut file = iface(more);
            file["ftn3rev"] = json!(format!("1.{minor}"));
            file
        };
        let param = |kind: Value| json!({"funcs": {"f": {"params": {"a": kind}}}});
        let kind = |kind: Value| json!({"types": {"T": kind}});
        let func = |func: Value| json!({"funcs": {"f": func}});
        let features = [
            (1, json!({"imports": []})),
            (1, json!({"types": {}})),
            (1, json!({"requires": ["BiDirectChannel"]})),
            (1, func(json!({"heavy": true}))),
            (1, param(json!({"type": "any"}))),
            (2, json!({"requires": ["MessageSignature"]})),
            (3, func(json!({"seclvl": "Info"}))),
            (4, param(json!("integer"))),
            (4, kind(json!("integer"))),
            (4, kind(json!({"type": "map", "fields": {"a": "integer"}}))),
            (5, kind(json!({"type": "string", "minlen": 1}))),
            (6, param(json!(["integer", "string"]))),
            (6, kind(json!({"type": "enum", "items": [1]}))),
            (6, kind(json!({"type": "set", "items": [1]}))),
            (6, kind(json!({"type": "map", "elemtype": "integer"}))),
            (7, func(json!({"result": "integer"}))),
            (8, func(json!({"maxreqsize": "1K"}))),
            (8, func(json!({"maxrspsize": "1K"}))),
            (9, param(json!({"type": "data"}))),
            (9, json!({"requires": ["BinaryData"]})),
        ];
        for (since, more) in &features {
            load(&[rev(*since, more.clone())]).unwrap();
        }
        let too_old = features.into_iter().map(|(since, more)| rev(since - 1, more));
        expect![[r#"
            a.b-1.0-iface.json: /imports: imports needs ftn3rev 1.1
            a.b-1.0-iface.json: /types: types needs ftn3rev 1.1
            a.b-1.0-iface.json: /requires/0: BiDirectChannel needs ftn3rev 1.1
            a.b-1.0-iface.json: /funcs/f/heavy: heavy needs ftn3rev 1.1
            a.b-1.0-iface.json: /funcs/f/params/a/type: type any needs ftn3rev 1.1
            a.b-1.0-iface.json: /requires/0: MessageSignature needs ftn3rev 1.2
            a.b-1.0-iface.json: /funcs/f/seclvl: seclvl needs ftn3rev 1.3
            a.b-1.0-iface.json: /funcs/f/params/a: a type shortcut needs ftn3rev 1.4
            a.b-1.0-iface.json: /types/T: a type shortcut needs ftn3rev 1.4
            a.b-1.0-iface.json: /types/T/fields/a: a type shortcut needs ftn3rev 1.4
            a.b-1.0-iface.json: /types/T: the length of a string needs ftn3rev 1.5
            a.b-1.0-iface.json: /funcs/f/params/a: a list of types needs ftn3rev 1.6
            a.b-1.0-iface.json: /types/T/type: types enum and set needs ftn3rev 1.6
            a.b-1.0-iface.json: /types/T/type: types enum and set needs ftn3rev 1.6
            a.b-1.0-iface.json: /types/T: elemtype of a map needs ftn3rev 1.6
            a.b-1.0-iface.json: /funcs/f/result: a result that is a type needs ftn3rev 1.7
            a.b-1.0-iface.json: /funcs/f/maxreqsize: a size limit needs ftn3rev 1.8
            a.b-1.0-iface.json: /funcs/f/maxrspsize: a size limit needs ftn3rev 1.8
            a.b-1.0-iface.json: /funcs/f/params/a/type: type data needs ftn3rev 1.9
            a.b-1.0-iface.json: /requires/0: BinaryData needs ftn3rev 1.9
        "#]]
        .assert_eq(&errors(too_old));
    }

    #[test]
    fn a_definition_without_revision_is_of_the_first() {
        let mut file = iface(json!({"types": {}}));
        file.as_object_mut().unwrap().remove("ftn3rev");
        let text = load(&[file]).unwrap_err().to_string();
        assert!(text.ends_with("/types: types needs ftn3rev 1.1"), "{text}");
    }
}
