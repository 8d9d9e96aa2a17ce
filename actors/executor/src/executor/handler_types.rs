//! The Rust types of a handler, as far as the executor has to know them.

use std::any::{TypeId, type_name};
use std::collections::BTreeSet;

use asyncsteps_core::{Args, Codes, Error, codes};
use asyncsteps_futoin::iface::{Definition, Function};
use asyncsteps_futoin::typed::{
    DeclaredFunction, Interface, Mismatch, differences, event_differences,
};
use schemars::JsonSchema;
use serde::Serialize;

use super::config_error::ConfigError;
use super::result_draft::Returned;
use super::standard::STANDARD;
use crate::plan::{Handler, Service, typed};
use crate::raw::RawOutput;
use crate::recorder::OUTCOME_UNKNOWN;

/// The operations on the types of a handler.
#[derive(Clone, Copy)]
pub(super) struct HandlerTypes {
    /// Writes what the last step returned as JSON.
    pub(super) write: fn(Args) -> Result<Written, Error>,
    differences: fn(&Definition, &str) -> Vec<ConfigError>,
    /// Declares a function with these types, unless it is declared already.
    pub(super) declare: fn(&mut Interface, &str),
    /// It takes raw data in addition to its parameters.
    takes_raw: bool,
}

impl HandlerTypes {
    /// The types of a handler.
    ///
    /// Callers of one `behind` a host may also get [`OUTCOME_UNKNOWN`].
    pub(super) fn new<S, Form, H>(behind: bool) -> Self
    where
        S: Service,
        H: Handler<S, Form>,
        H::Params: JsonSchema,
        H::Result: FunctionResult,
    {
        let declare = match (behind, H::TAKES_RAW) {
            (true, _) => declare_behind::<H::Params, H::Result, S::Errors>,
            (false, false) => declare::<H::Params, H::Result, S::Errors>,
            (false, true) => declare_upload::<H::Params, H::Result, S::Errors>,
        };
        let write = |returned| typed::<(H::Result,)>(returned)?.0.write();
        let differences = H::Result::differences::<H::Params>;
        Self { write, differences, declare, takes_raw: H::TAKES_RAW }
    }

    /// The points in which the types differ from the definition.
    pub(super) fn differences(&self, definition: &Definition, function: &str) -> Vec<ConfigError> {
        let mut errors = (self.differences)(definition, function);
        if self.takes_raw && !definition.function(function).is_some_and(Function::rawupload) {
            errors.push(raw_difference(
                definition,
                function,
                "parameters",
                "the handler takes raw data, the definition has no `rawupload`",
            ));
        }
        errors
    }
}

/// The operations on the type of what a function emits.
#[derive(Clone, Copy, Debug)]
pub(super) struct EventTypes {
    pub(super) declare: fn(&mut DeclaredFunction) -> &mut DeclaredFunction,
    differences: fn(&Definition, &str) -> Vec<Mismatch>,
}

impl EventTypes {
    pub(super) fn of<E: JsonSchema>() -> Self {
        Self { declare: DeclaredFunction::emits::<E>, differences: event_differences::<E> }
    }

    /// The points in which the type differs from the definition.
    pub(super) fn differences(self, definition: &Definition, function: &str) -> Vec<ConfigError> {
        config_errors(definition, function, (self.differences)(definition, function))
    }
}

/// The codes of errors that callers only see if a function `throws` them.
pub(super) fn codes_to_declare<E: Codes>() -> BTreeSet<&'static str> {
    E::all().into_iter().filter(|code| !STANDARD.contains(code)).collect()
}

fn is_nothing<R: 'static>() -> bool {
    TypeId::of::<R>() == TypeId::of::<()>()
}

/// The result of a function: a type that serde writes and schemars describes, `()` for nothing, or
/// [`RawOutput`] for raw data.
#[diagnostic::on_unimplemented(
    message = "a function cannot return `{Self}`",
    label = "callers cannot be sent this",
    note = "derive `serde::Serialize` and `schemars::JsonSchema` for a type of your own; raw data are a `RawOutput`"
)]
pub trait FunctionResult: Sized + 'static {
    /// It as callers get it.
    #[doc(hidden)]
    fn write(self) -> Result<Written, Error>;

    #[doc(hidden)]
    fn differences<P: JsonSchema>(definition: &Definition, function: &str) -> Vec<ConfigError>;

    #[doc(hidden)]
    fn declare<'a, P: JsonSchema>(
        interface: &'a mut Interface,
        function: &str,
    ) -> &'a mut DeclaredFunction;

    /// Whether callers wait for it.
    #[doc(hidden)]
    fn is_awaited() -> bool;
}

/// The result of a function, as it is merged with the parts that its steps have set.
#[derive(derive_more::Debug)]
#[debug("Written")]
#[doc(hidden)]
pub struct Written(pub(super) Returned);

#[diagnostic::do_not_recommend]
impl<R: Serialize + JsonSchema + 'static> FunctionResult for R {
    fn write(self) -> Result<Written, Error> {
        if is_nothing::<R>() {
            return Ok(Written(Returned::nothing()));
        }
        let result = serde_json::to_value(self)
            .map_err(|cause| Error::caused_by(codes::INTERNAL_ERROR, cause))?;
        Ok(Written(Returned::json(result, type_name::<R>())))
    }

    fn differences<P: JsonSchema>(definition: &Definition, function: &str) -> Vec<ConfigError> {
        differences_of::<P, R>(definition, function)
    }

    fn declare<'a, P: JsonSchema>(
        interface: &'a mut Interface,
        function: &str,
    ) -> &'a mut DeclaredFunction {
        interface.function::<P, R>(function)
    }

    fn is_awaited() -> bool {
        !is_nothing::<R>()
    }
}

impl FunctionResult for RawOutput {
    fn write(self) -> Result<Written, Error> {
        // all is written
        drop(self);
        Ok(Written(Returned::nothing()))
    }

    fn differences<P: JsonSchema>(definition: &Definition, function: &str) -> Vec<ConfigError> {
        let mut errors = differences_of::<P, ()>(definition, function);
        if !definition.function(function).is_some_and(Function::rawresult) {
            errors.push(raw_difference(
                definition,
                function,
                "result",
                "the handler returns raw data, the definition has no `rawresult`",
            ));
        }
        errors
    }

    fn declare<'a, P: JsonSchema>(
        interface: &'a mut Interface,
        function: &str,
    ) -> &'a mut DeclaredFunction {
        interface.function::<P, ()>(function).rawresult()
    }

    fn is_awaited() -> bool {
        true
    }
}

fn raw_difference(definition: &Definition, function: &str, at: &str, what: &str) -> ConfigError {
    let (iface, function) = (definition.id().clone(), function.to_owned());
    ConfigError::Type { iface, function, at: at.to_owned(), what: what.to_owned() }
}

fn differences_of<P: JsonSchema, R: JsonSchema>(
    definition: &Definition,
    function: &str,
) -> Vec<ConfigError> {
    config_errors(definition, function, differences::<P, R>(definition, function))
}

fn config_errors(
    definition: &Definition,
    function: &str,
    found: Vec<Mismatch>,
) -> Vec<ConfigError> {
    let error = |Mismatch { at, what, .. }| ConfigError::Type {
        iface: definition.id().clone(),
        function: function.to_owned(),
        at,
        what,
    };
    found.into_iter().map(error).collect()
}

fn declare<P: JsonSchema, R: FunctionResult, E: Codes>(interface: &mut Interface, function: &str) {
    let _ = declared::<P, R>(interface, function, codes_to_declare::<E>());
}

fn declare_upload<P, R, E>(interface: &mut Interface, function: &str)
where
    P: JsonSchema,
    R: FunctionResult,
    E: Codes,
{
    if let Some(declared) = declared::<P, R>(interface, function, codes_to_declare::<E>()) {
        declared.rawupload();
    }
}

fn declare_behind<P, R, E>(interface: &mut Interface, function: &str)
where
    P: JsonSchema,
    R: FunctionResult,
    E: Codes,
{
    let codes = codes_to_declare::<E>().into_iter().chain([OUTCOME_UNKNOWN]);
    let _ = declared::<P, R>(interface, function, codes);
}

/// Declares a function, unless it is declared already; it fails with these codes, unless it says others.
fn declared<'a, P: JsonSchema, R: FunctionResult>(
    interface: &'a mut Interface,
    function: &str,
    codes: impl IntoIterator<Item = &'static str>,
) -> Option<&'a mut DeclaredFunction> {
    let is_new = interface.declared(function).is_none();
    let declared = match is_new {
        true => R::declare::<P>(interface, function),
        false => interface.declared(function)?,
    };
    // callers of a function without a result may not wait for errors either (FTN3 §1.9)
    if R::is_awaited() {
        declared.throws_by_default(codes);
    }
    is_new.then_some(declared)
}
