//! FTN3 interface definitions: read once, checked in full, compiled into checkers.
//!
//! A [`Loader`] finds `{iface}-{version}-iface.json` in its [`Source`]s, merges what the file
//! inherits and imports, and returns an immutable [`Definition`] to share between threads. Each
//! [`Function`] then checks parameters and results without looking at the definition again. A
//! folder source reads files; nothing else here does IO.
//!
//! [`guide`] shows how to write definitions.
//!
//! Definitions are trusted, messages are not: checking a message takes time in proportion to its
//! size. A `regex` with lookaround or backreferences would need more, so a definition that has one is
//! refused.
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

#[doc = include_str!("../docs/ftn3.md")]
pub mod guide {}

mod check;
mod compile;
mod declared_type;
mod definition;
mod error;
mod function;
mod json_schema;
mod load;
mod merge;
mod name;
mod parse;
mod source;
mod violation;

#[cfg(test)]
mod fixture;

pub(crate) use self::check::Check;
pub(crate) use self::declared_type::DeclaredType;
pub use self::definition::Definition;
pub(crate) use self::definition::event_type;
pub use self::error::{Difference, LoadError, Rule};
pub(crate) use self::function::ResultCheck;
pub use self::function::{Function, Parameter};
pub(crate) use self::json_schema::nullable;
pub use self::load::Loader;
pub(crate) use self::name::is_iface;
pub use self::name::{Compatibility, FunctionName, IfaceVer, NameError, Version};
pub(crate) use self::name::{is_error, is_function, is_variable};
pub use self::source::Source;
pub(crate) use self::violation::clipped;
pub(crate) use self::violation::parameter_type;
pub use self::violation::{INTERNAL_ERROR, INVALID_REQUEST};
