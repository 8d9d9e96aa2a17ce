//! A merged module into the definition that executors share.

use std::sync::Arc;

use super::{
    compile::{Compiler, Place},
    decl::{FuncDecl, Module, ParamDecl, ResultDecl},
    definition::{Definition, Function, Parameter, Shape},
    error::{LoadError, Rule},
};

/// Compiles every type and function of `module`.
pub(super) fn definition(
    module: &Module,
    inherits: Vec<Arc<Definition>>,
) -> Result<Definition, LoadError> {
    let mut compiler = Compiler::new(&module.types);
    compiler.all()?;
    let funcs = module.funcs.iter().map(|(name, decl)| {
        let function = function(&mut compiler, name, decl)?;
        Ok((function.name.clone(), Arc::new(function)))
    });
    let types = module.types.iter().map(|(name, decl)| (name.as_str().into(), decl.to_value()));
    Ok(Definition {
        id: module.origin.id.clone(),
        funcs: funcs.collect::<Result<_, LoadError>>()?,
        types: types.collect(),
        requires: module.requires.iter().map(|name| name.as_str().into()).collect(),
        inherits: inherits.into(),
    })
}

fn function(
    compiler: &mut Compiler<'_>,
    name: &str,
    decl: &FuncDecl,
) -> Result<Function, LoadError> {
    let params = decl.params.iter().map(|param| {
        let pointer = format!("/funcs/{name}/params/{}", param.name);
        variable(compiler, param, Place { origin: &decl.origin, pointer: &pointer })
    });
    let params = params.collect::<Result<_, _>>()?;
    let pointer = format!("/funcs/{name}/result");
    let at = Place { origin: &decl.origin, pointer: &pointer };
    let result = match &decl.result {
        _ if decl.rawresult => Shape::Raw,
        ResultDecl::Nothing => Shape::Nothing,
        ResultDecl::Whole(kind) => Shape::Whole(compiler.check(kind, at)?),
        ResultDecl::Variables(variables) => {
            let variables = variables.iter().map(|result| {
                let pointer = format!("{}/{}", at.pointer, result.name);
                variable(compiler, result, Place { pointer: &pointer, ..at })
            });
            Shape::Variables(variables.collect::<Result<_, _>>()?)
        }
    };
    Ok(Function {
        name: name.into(),
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
    compiler: &mut Compiler<'_>,
    decl: &ParamDecl,
    at: Place<'_>,
) -> Result<Parameter, LoadError> {
    let check = compiler.check(&decl.kind, at)?;
    let mut default = decl.default.clone();
    // FTN3 §1.8.2: null is a default for every type.
    if let Some(value) = default.as_mut().filter(|value| !value.is_null())
        && !check.admit(value)
    {
        return Err(at.fail(Rule::Default));
    }
    let type_name = decl.kind.to_value();
    Ok(Parameter { name: decl.name.as_str().into(), type_name, check, default })
}
