//! Functions with their parameters and results (FTN3 §1.1).

use std::sync::Arc;

use super::declaration::{FunctionDecl, ResultDecl, VariableDecl};
use super::document::{DocumentNode, Json};
use super::reference::{TypeRef, names, variable_name};
use crate::iface::error::{LoadError, Rule};
use crate::iface::name::is_error;

/// FTN3 §1.10: the limit of a request or a response without one of its own, in bytes.
const SAFE_PAYLOAD: usize = 64 << 10;

/// Reads an entry of `funcs`.
pub(crate) fn read(entry: &DocumentNode<'_>) -> Result<FunctionDecl, LoadError> {
    let mut func = FunctionDecl {
        file: Arc::clone(entry.file()),
        params: Vec::new(),
        result: ResultDecl::Nothing,
        desc: None,
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
            "params" => {
                let params = field.fields()?.map(|entry| param(&entry));
                func.params = params.collect::<Result<_, _>>()?;
            }
            "result" => func.result = result(&field)?,
            "throws" => func.throws = names(&field, error_name)?,
            "rawupload" => func.rawupload = field.flag()?,
            "rawresult" => func.rawresult = field.flag()?,
            "heavy" => {
                field.require(1, "heavy")?;
                func.heavy = field.flag()?;
            }
            "seclvl" => {
                field.require(3, "seclvl")?;
                func.seclvl = Some(field.text()?.to_owned());
            }
            "maxreqsize" => func.maxreqsize = size(&field)?,
            "maxrspsize" => func.maxrspsize = size(&field)?,
            "desc" => func.desc = Some(field.text()?.to_owned()),
            _ => return Err(field.fail(Rule::UnknownField)),
        }
    }
    let answers = func.rawresult || !matches!(func.result, ResultDecl::Nothing);
    if !func.throws.is_empty() && !answers {
        return Err(entry.fail(Rule::ThrowsWithoutResult));
    }
    Ok(func)
}

fn result(field: &DocumentNode<'_>) -> Result<ResultDecl, LoadError> {
    match field.json() {
        Json::Object(variables) if variables.is_empty() => Ok(ResultDecl::Nothing),
        Json::Object(_) => {
            let variables = field.fields()?.map(|entry| result_variable(&entry));
            Ok(ResultDecl::Variables(variables.collect::<Result<_, _>>()?))
        }
        Json::Scalar(_) => {
            field.require(7, "a result that is a type")?;
            Ok(ResultDecl::Whole(TypeRef::named(field)?))
        }
        // FTN3 §1.8.5 has no alternatives here.
        Json::List(_) => Err(field.fail(Rule::Expected("an object or the name of a type"))),
    }
}

fn param(entry: &DocumentNode<'_>) -> Result<VariableDecl, LoadError> {
    let mut default = None;
    let param = variable(entry, |field| match field.name() {
        "default" => {
            default = Some(field.json().to_value());
            Ok(())
        }
        _ => Err(field.fail(Rule::UnknownField)),
    })?;
    Ok(VariableDecl { default, ..param })
}

fn result_variable(entry: &DocumentNode<'_>) -> Result<VariableDecl, LoadError> {
    variable(entry, |field| Err(field.fail(Rule::UnknownField)))
}

/// Reads what parameters and result variables have in common; `other` gets the other fields.
fn variable(
    entry: &DocumentNode<'_>,
    mut other: impl FnMut(&DocumentNode<'_>) -> Result<(), LoadError>,
) -> Result<VariableDecl, LoadError> {
    let name = variable_name(entry)?;
    if let Some(type_ref) = TypeRef::shortcut(entry)? {
        return Ok(VariableDecl { name, type_ref, default: None, desc: None });
    }
    let (mut type_ref, mut desc) = (None, None);
    for field in entry.fields()? {
        match field.name() {
            "type" => type_ref = Some(TypeRef::named(&field)?),
            "desc" => desc = Some(field.text()?.to_owned()),
            _ => other(&field)?,
        }
    }
    let type_ref = type_ref.ok_or_else(|| entry.fail(Rule::Missing("type")))?;
    Ok(VariableDecl { name, type_ref, default: None, desc })
}

/// `maxreqsize` and `maxrspsize` into bytes: digits and B, K or M (FTN3 §1.10.1).
fn size(field: &DocumentNode<'_>) -> Result<usize, LoadError> {
    field.require(8, "a size limit")?;
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

fn error_name(item: &DocumentNode<'_>) -> Result<(), LoadError> {
    if is_error(item.text()?) {
        Ok(())
    } else {
        Err(item.fail(Rule::Expected("named like SomeError or SOME_ERROR")))
    }
}
