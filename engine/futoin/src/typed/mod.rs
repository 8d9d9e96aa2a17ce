//! The Rust types of a function compared with its declaration.
//!
//! A handler that takes `P` and returns `R` fits a function if each request that the definition
//! admits can be read as a `P`, and each `R` is a result that the definition admits. [`differences`]
//! says where that is not so, before the first request. In the other direction, [`Interface`] writes
//! the definition down from the types.
//!
//! The types describe themselves through [`schemars::JsonSchema`], which follows the attributes of
//! serde. The `format` of a text (a date, a UUID) is not compared: definitions have no such thing.
//!
//! ```
//! use asyncsteps_futoin::iface::{Loader, Source};
//! use asyncsteps_futoin::typed::differences;
//! use schemars::JsonSchema;
//!
//! let file = r#"{
//!     "iface": "acme.seats", "version": "1.0", "ftn3rev": "1.9",
//!     "types": { "Count": { "type": "integer", "min": 1, "max": 10 } },
//!     "funcs": { "reserve": {
//!         "params": { "event": "string", "seats": "Count" },
//!         "result": { "reservation": "string" }
//!     } }
//! }"#;
//! let source = Source::texts([("acme.seats-1.0-iface.json", file)]);
//! let seats = Loader::new([source]).load(&"acme.seats:1.0".parse()?)?;
//!
//! #[derive(JsonSchema)]
//! struct Reserve { event: String, seats: u8 }
//! #[derive(JsonSchema)]
//! struct Reserved { reservation: u32 }
//!
//! let found = differences::<Reserve, Reserved>(&seats, "reserve");
//! assert_eq!(found.len(), 1);
//! assert_eq!(
//!     found[0].to_string(),
//!     "result reservation: the Rust type has integer from 0 to 4294967295, \
//!      the definition has string",
//! );
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![expect(clippy::wildcard_enum_match_arm, reason = "few of many kinds of types need words")]

mod compare;
mod declared;
mod interface;
mod names;
mod schema;
mod sensitive;
mod value_type;

use std::fmt;

use schemars::JsonSchema;

use crate::iface::Definition;

pub use interface::{DeclaredFunction, Interface, InterfaceError, Unwritable};
pub use sensitive::{Sensitive, SensitiveFields};

/// A point in which a Rust type and a declaration do not fit.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Mismatch {
    /// Where: `parameter seats`, `result order.items[]`.
    pub at: String,
    /// The difference between both sides.
    pub what: String,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.at, self.what)
    }
}

/// Every point in which a handler that takes `P` and returns `R` does not fit a function of the
/// definition: parameters and result variables that only one side has, values that the definition
/// admits and `P` cannot read, values of `R` that the definition refuses.
///
/// `()` means no parameters and no result.
#[must_use]
pub fn differences<P: JsonSchema, R: JsonSchema>(
    definition: &Definition,
    function: &str,
) -> Vec<Mismatch> {
    let Some(function) = definition.function(function) else {
        let what = format!("{} does not declare it", definition.id());
        return vec![Mismatch { at: format!("function {function}"), what }];
    };
    let mut found = Vec::new();
    compare::parameters(definition, function, &schema::read::<P>(), &mut found);
    compare::result(definition, function, &schema::written::<R>(), &mut found);
    found
}

/// The same for what a function emits while it runs: the [type](Definition::event_type) that is named after it.
#[must_use]
pub fn event_differences<E: JsonSchema>(definition: &Definition, function: &str) -> Vec<Mismatch> {
    compare::event(definition, function, &schema::written::<E>())
}
