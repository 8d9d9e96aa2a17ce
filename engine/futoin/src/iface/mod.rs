//! FTN3 interface definitions: read once, checked in full, compiled into checkers.
//!
//! A [`Loader`] finds `{iface}-{version}-iface.json` in its [`Source`]s, merges what the file
//! inherits and imports, and gives an immutable [`Definition`] to share between threads. Each
//! [`Function`] then checks parameters and results without looking at the definition again.
//! Everything here is pure: no runtime, no clock, and no file besides those a folder source reads.
//!
//! A definition says what can be called, with which parameters, and by whom:
//!
//! ```
//! use asyncsteps_futoin::iface::{Loader, Source};
//!
//! let file = r#"{
//!     "iface": "acme.tickets",
//!     "version": "1.0",
//!     "ftn3rev": "1.9",
//!     "types": {
//!         "Seats": { "type": "integer", "min": 1, "max": 10 },
//!         "Event": { "type": "string", "minlen": 1, "maxlen": 64 }
//!     },
//!     "funcs": {
//!         "reserve": {
//!             "params": { "event": "Event", "seats": { "type": "Seats", "default": 1 } },
//!             "result": { "reservation": "string", "total": "integer" },
//!             "throws": ["SoldOut"]
//!         },
//!         "report": {
//!             "result": { "sold": "integer" },
//!             "seclvl": "Info"
//!         },
//!         "seen": {
//!             "params": { "event": "Event" },
//!             "desc": "Without a result no answer is sent, unless it is asked for"
//!         }
//!     },
//!     "requires": ["AllowAnonymous"]
//! }"#;
//! let source = Source::texts([("acme.tickets-1.0-iface.json", file)]);
//! let tickets = Loader::new([source]).load(&"acme.tickets:1.0".parse()?)?;
//! assert_eq!(tickets.functions().count(), 3);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! - Types: `any`, `boolean`, `integer` (32 bits, with sign), `number`, `string`, `map`, `array`,
//!   `enum`, `set`, `data` (bytes), and those that `types` declares with constraints: `min`, `max`,
//!   `minlen`, `maxlen`, `regex`, `elemtype`, `elems`, `fields`, `items`.
//! - `throws` lists the errors that callers see as they are, beside those of FTN3 §1.9.1.
//! - Without `AllowAnonymous` in `requires` every caller must be known. `seclvl` says how well, for one
//!   function: `Info`, `SafeOps`, `PrivilegedOps` or `ExceptionalOps`
//!   ([`SecurityLevel`](crate::security::SecurityLevel)).
//!
//! Definitions come from whoever deploys the executor, messages from anybody: checking a message
//! takes time in proportion to its size. A `regex` with lookaround or backreferences needs
//! backtracking, which is limited: a text that takes too much of it does not match.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use asyncsteps_futoin::iface::{FunctionName, Loader, Source};
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
