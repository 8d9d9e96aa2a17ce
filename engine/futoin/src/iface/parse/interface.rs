//! A definition as a whole (FTN3 §2.1).

use std::collections::BTreeMap;
use std::sync::Arc;

use super::constraint::Constraints;
use super::declaration::{FunctionDecl, ParsedInterface, TypeDecl};
use super::document::{DocumentNode, Json};
use super::function;
use super::reference::{TypeRef, names};
use super::source_file::SourceFile;
use crate::iface::error::{LoadError, Rule};
use crate::iface::name::{IfaceVer, Version, is_constraint, is_function, is_type};

/// Functions must not have a name that begins so (FTN3 §2.2.2).
const RESERVED: &str = "futoin";

/// The newest revision of FTN3 whose features are all known here.
const NEWEST_MINOR: u32 = 9;

/// Reads the definition of `id` (FTN3 §2.1).
///
/// # Errors
/// The first position that breaks a rule.
pub(crate) fn parse(id: &IfaceVer, name: &str, text: &str) -> Result<ParsedInterface, LoadError> {
    let syntax = |error| LoadError::new(name, String::new(), Rule::Syntax(error));
    let json: Json = serde_json::from_str(text).map_err(syntax)?;
    let file = Arc::new(SourceFile {
        id: id.clone(),
        name: name.to_owned(),
        // FTN3 §2.6: a definition that does not say is of the first revision
        revision: Version::new(1, 0),
    });
    // the revision first: it decides which of the other fields are allowed
    let file = match revision(&DocumentNode::root(&file, &json))? {
        Some(revision) => Arc::new(SourceFile { id: id.clone(), name: name.to_owned(), revision }),
        None => file,
    };
    interface(&DocumentNode::root(&file, &json))
}

fn interface(root: &DocumentNode<'_>) -> Result<ParsedInterface, LoadError> {
    let file = root.file();
    let mut interface = ParsedInterface {
        file: Arc::clone(file),
        types: BTreeMap::new(),
        funcs: BTreeMap::new(),
        requires: Vec::new(),
        inherit: None,
        imports: Vec::new(),
        desc: None,
    };
    let (mut iface, mut version) = (None, None);
    for field in root.fields()? {
        match field.name() {
            "iface" => iface = Some(field.text()?),
            "version" => version = Some(parse_version(&field)?),
            "ftn3rev" => {}
            "desc" => interface.desc = Some(field.text()?.to_owned()),
            "types" => interface.types = types(&field)?,
            "funcs" => interface.funcs = funcs(&field)?,
            "requires" => interface.requires = requires(&field)?,
            "inherit" => interface.inherit = Some(interface_name(&field)?),
            "imports" => interface.imports = imports(&field)?,
            _ => return Err(field.fail(Rule::UnknownField)),
        }
    }
    let iface = iface.ok_or_else(|| root.fail(Rule::Missing("iface")))?;
    let version = version.ok_or_else(|| root.fail(Rule::Missing("version")))?;
    if iface != file.id.iface() || version != file.id.version() {
        return Err(root.fail(Rule::OtherInterface(format!("{iface}:{version}"))));
    }
    Ok(interface)
}

fn revision(root: &DocumentNode<'_>) -> Result<Option<Version>, LoadError> {
    let Some(field) = root.field("ftn3rev") else {
        return Ok(None);
    };
    let revision = parse_version(&field)?;
    if revision.major != 1 || revision.minor > NEWEST_MINOR {
        return Err(field.fail(Rule::Revision(revision)));
    }
    Ok(Some(revision))
}

fn parse_version(field: &DocumentNode<'_>) -> Result<Version, LoadError> {
    field.text()?.parse().map_err(|_| field.fail(Rule::Expected("a version like 1.2")))
}

fn interface_name(field: &DocumentNode<'_>) -> Result<IfaceVer, LoadError> {
    field.text()?.parse().map_err(|_| field.fail(Rule::Expected("a name like some.iface:1.2")))
}

fn imports(list: &DocumentNode<'_>) -> Result<Vec<IfaceVer>, LoadError> {
    list.require(1, "imports")?;
    names(list, |item| interface_name(item).map(drop))?;
    list.items()?.map(|item| interface_name(&item)).collect()
}

fn requires(list: &DocumentNode<'_>) -> Result<Vec<String>, LoadError> {
    names(list, |item| match item.text()? {
        "BiDirectChannel" => item.require(1, "BiDirectChannel"),
        "MessageSignature" => item.require(2, "MessageSignature"),
        "BinaryData" => item.require(9, "BinaryData"),
        other if is_constraint(other) => Ok(()),
        _ => Err(item.fail(Rule::Expected("a name of letters and digits"))),
    })
}

fn types(map: &DocumentNode<'_>) -> Result<BTreeMap<String, TypeDecl>, LoadError> {
    map.require(1, "types")?;
    let mut types = BTreeMap::new();
    for entry in map.fields()? {
        if !is_type(entry.name()) {
            return Err(entry.fail(Rule::Expected("named like SomeType")));
        }
        types.insert(entry.name().to_owned(), type_decl(&entry)?);
    }
    Ok(types)
}

fn type_decl(entry: &DocumentNode<'_>) -> Result<TypeDecl, LoadError> {
    let file = Arc::clone(entry.file());
    let mut constraints = Constraints::default();
    if let Some(base) = TypeRef::shortcut(entry)? {
        return Ok(TypeDecl { base, constraints, desc: None, file });
    }
    let (mut base, mut desc) = (None, None);
    for field in entry.fields()? {
        match field.name() {
            "type" => base = Some(TypeRef::named(&field)?),
            "desc" => desc = Some(field.text()?.to_owned()),
            _ => constraints.read(&field)?,
        }
    }
    let base = base.ok_or_else(|| entry.fail(Rule::Missing("type")))?;
    Ok(TypeDecl { base, constraints, desc, file })
}

fn funcs(map: &DocumentNode<'_>) -> Result<BTreeMap<String, FunctionDecl>, LoadError> {
    let mut funcs = BTreeMap::new();
    for entry in map.fields()? {
        if !is_function(entry.name()) {
            return Err(entry.fail(Rule::Expected("named like someFunc")));
        }
        if entry.name().starts_with(RESERVED) {
            return Err(entry.fail(Rule::Expected("named without the reserved prefix futoin")));
        }
        funcs.insert(entry.name().to_owned(), function::read(&entry)?);
    }
    Ok(funcs)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::{Value, json};

    use crate::iface::fixture::{errors, iface, load};

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
