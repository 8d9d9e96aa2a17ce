//! The Rust types of a handler, as far as the executor has to know them.

use std::any::{TypeId, type_name};
use std::collections::BTreeSet;

use asyncsteps_core::{Args, Arguments, Codes, Error, codes};
use asyncsteps_futoin::iface::Definition;
use asyncsteps_futoin::typed::{Interface, Mismatch, differences};
use schemars::JsonSchema;
use serde::Serialize;

use super::config_error::ConfigError;
use super::result_draft::Returned;
use super::standard::STANDARD;
use crate::recorder::OUTCOME_UNKNOWN;

/// What can be done with the types of a handler.
#[derive(Clone, Copy)]
pub(super) struct HandlerTypes {
    /// Writes what the last step gives as JSON.
    pub(super) write: fn(Args) -> Result<Returned, Error>,
    pub(super) differences: fn(&Definition, &str) -> Vec<ConfigError>,
    /// Declares a function with these types, unless it is declared already.
    pub(super) declare: fn(&mut Interface, &str),
}

impl HandlerTypes {
    /// The types of a handler that takes `P`, gives `(R,)` and fails with errors of `E`.
    ///
    /// Callers of one `behind` a host may also get [`OUTCOME_UNKNOWN`].
    pub(super) fn new<P, R, E>(behind: bool) -> Self
    where
        P: JsonSchema,
        R: Serialize + JsonSchema + 'static,
        E: Codes,
    {
        let declare = if behind { declare_behind::<P, R, E> } else { declare::<P, R, E> };
        Self { write: write::<R>, differences: differences_of::<P, R>, declare }
    }
}

/// The codes of errors that callers only see if a function `throws` them.
pub(super) fn codes_to_declare<E: Codes>() -> BTreeSet<&'static str> {
    E::all().into_iter().filter(|code| !STANDARD.contains(code)).collect()
}

fn is_nothing<R: 'static>() -> bool {
    TypeId::of::<R>() == TypeId::of::<()>()
}

fn write<R: Serialize + 'static>(args: Args) -> Result<Returned, Error> {
    let (result,) = <(R,)>::from_args(args).map_err(internal)?;
    if is_nothing::<R>() {
        return Ok(Returned::nothing());
    }
    Ok(Returned::json(serde_json::to_value(result).map_err(internal)?, type_name::<R>()))
}

fn internal(cause: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::caused_by(codes::INTERNAL_ERROR, cause)
}

fn differences_of<P: JsonSchema, R: JsonSchema>(
    definition: &Definition,
    function: &str,
) -> Vec<ConfigError> {
    let found = differences::<P, R>(definition, function).into_iter();
    let error = |Mismatch { at, what, .. }| ConfigError::Type {
        iface: definition.id().clone(),
        function: function.to_owned(),
        at,
        what,
    };
    found.map(error).collect()
}

fn declare<P, R, E>(interface: &mut Interface, function: &str)
where
    P: JsonSchema,
    R: JsonSchema + 'static,
    E: Codes,
{
    declare_throwing::<P, R>(interface, function, codes_to_declare::<E>());
}

fn declare_behind<P, R, E>(interface: &mut Interface, function: &str)
where
    P: JsonSchema,
    R: JsonSchema + 'static,
    E: Codes,
{
    let codes = codes_to_declare::<E>().into_iter().chain([OUTCOME_UNKNOWN]);
    declare_throwing::<P, R>(interface, function, codes);
}

fn declare_throwing<P, R>(
    interface: &mut Interface,
    function: &str,
    codes: impl IntoIterator<Item = &'static str>,
) where
    P: JsonSchema,
    R: JsonSchema + 'static,
{
    if interface.declares(function) {
        return;
    }
    let declared = interface.function::<P, R>(function);
    // callers of a function without a result may not wait for errors either (FTN3 §1.9)
    if !is_nothing::<R>() {
        declared.throws(codes);
    }
}
