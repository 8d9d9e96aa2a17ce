//! A merged interface into the definition that executors share.

mod types;

use std::sync::Arc;

use self::types::{Location, TypeCompiler};
use super::definition::{CustomType, Definition};
use super::error::{LoadError, Rule};
use super::function::{Function, Parameter, ResultCheck};
use super::parse::{FunctionDecl, ParsedInterface, ResultDecl, VariableDecl};

/// Compiles every type and function of `interface`.
pub(crate) fn definition(
    interface: &ParsedInterface,
    inherits: Vec<Arc<Definition>>,
) -> Result<Definition, LoadError> {
    let mut compiler = TypeCompiler::new(&interface.types);
    compiler.all()?;
    let funcs = interface.funcs.iter().map(|(name, decl)| {
        let function = function(&mut compiler, name, decl)?;
        Ok((function.name.clone(), Arc::new(function)))
    });
    let funcs = funcs.collect::<Result<_, LoadError>>()?;
    let mut checks = compiler.finish();
    let types = interface.types.iter().filter_map(|(name, decl)| {
        let (written, desc) = (decl.to_value(), decl.desc.as_deref().map(Into::into));
        let custom = CustomType { written, check: checks.remove(name.as_str())?, desc };
        Some((name.as_str().into(), custom))
    });
    Ok(Definition {
        id: interface.file.id.clone(),
        desc: interface.desc.as_deref().map(Into::into),
        funcs,
        types: types.collect(),
        requires: interface.requires.iter().map(|name| name.as_str().into()).collect(),
        inherits: inherits.into(),
    })
}

fn function(
    compiler: &mut TypeCompiler<'_>,
    name: &str,
    decl: &FunctionDecl,
) -> Result<Function, LoadError> {
    let params = decl.params.iter().map(|param| {
        let pointer = format!("/funcs/{name}/params/{}", param.name);
        variable(compiler, param, Location { file: &decl.file, pointer: &pointer })
    });
    let params = params.collect::<Result<_, _>>()?;
    let pointer = format!("/funcs/{name}/result");
    let at = Location { file: &decl.file, pointer: &pointer };
    let result = match &decl.result {
        _ if decl.rawresult => ResultCheck::Raw,
        ResultDecl::Nothing => ResultCheck::Nothing,
        ResultDecl::Whole(type_ref) => ResultCheck::Whole(compiler.check(type_ref, at)?),
        ResultDecl::Variables(variables) => {
            let variables = variables.iter().map(|result| {
                let pointer = format!("{}/{}", at.pointer, result.name);
                variable(compiler, result, Location { pointer: &pointer, ..at })
            });
            ResultCheck::Variables(variables.collect::<Result<_, _>>()?)
        }
    };
    Ok(Function {
        name: name.into(),
        desc: decl.desc.as_deref().map(Into::into),
        params,
        result,
        result_type: if decl.rawresult { None } else { decl.result.to_value() },
        throws: decl.throws.iter().map(|code| code.as_str().into()).collect(),
        heavy: decl.heavy,
        seclvl: decl.seclvl.as_deref().map(Into::into),
        rawupload: decl.rawupload,
        maxreqsize: decl.maxreqsize,
        maxrspsize: decl.maxrspsize,
    })
}

fn variable(
    compiler: &mut TypeCompiler<'_>,
    decl: &VariableDecl,
    at: Location<'_>,
) -> Result<Parameter, LoadError> {
    let check = compiler.check(&decl.type_ref, at)?;
    let mut default = decl.default.clone();
    // FTN3 §1.8.2: null is a default for every type.
    if let Some(value) = default.as_mut().filter(|value| !value.is_null())
        && !check.admit(value)
    {
        return Err(at.fail(Rule::Default));
    }
    let type_name = decl.type_ref.to_value();
    let desc = decl.desc.as_deref().map(Into::into);
    Ok(Parameter { name: decl.name.as_str().into(), type_name, check, default, desc })
}
