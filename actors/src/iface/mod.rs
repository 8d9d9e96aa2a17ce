//! FTN3 interface definitions: read once, checked in full, compiled into checkers.
//!
//! A [`Loader`] finds `{iface}-{version}-iface.json` in its [`Source`]s, merges what the file
//! inherits and imports, and gives an immutable [`Definition`] to share between threads. Each
//! [`Function`] then checks parameters and results without looking at the definition again.
//! Everything here is pure: no runtime, no clock, and no file besides those a folder source reads.
//!
//! Definitions come from whoever deploys the executor, messages from anybody: checking a message
//! takes time in proportion to its size. A `regex` with lookaround or backreferences needs
//! backtracking, which is limited: a text that takes too much of it does not match.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use asyncsteps_actors::iface::{FunctionName, Loader, Source};
//! use serde_json::json;
//!
//! let mut loader = Loader::new([Source::builtin()]);
//! let ping = loader.load(&"futoin.anonping:1.0".parse()?)?;
//! let called: FunctionName = "futoin.anonping:1.0:ping".parse()?;
//! let function = ping.function(called.func()).ok_or("no such function")?;
//!
//! let mut params = serde_json::Map::new();
//! let refused = function.check_params(&called, &mut params).map_err(|why| why.to_string());
//! assert_eq!(refused, Err("Missing parameter: futoin.anonping:1.0:ping(echo)".to_owned()));
//!
//! params.insert("echo".to_owned(), json!(5));
//! assert!(function.check_params(&called, &mut params).is_ok());
//! # Ok(())
//! # }
//! ```

mod definition;
mod error;
mod load;
mod name;
mod source;
mod violation;

mod build;
mod check;
mod compile;
mod decl;
mod kind;
mod merge;
mod node;
mod parse;
mod pattern;

#[cfg(test)]
mod fixture;

pub use self::{
    definition::{Definition, Function, Parameter},
    error::{Difference, LoadError, Rule},
    load::Loader,
    name::{Compatibility, FunctionName, IfaceVer, NameError, Version},
    source::Source,
    violation::{INTERNAL_ERROR, INVALID_REQUEST, Violation},
};
pub(crate) use self::{kind::Kind, name::is_iface, violation::clipped};
