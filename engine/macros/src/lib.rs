//! Derive macros of `asyncsteps`, which hands them on under its feature `macros`.
#![forbid(unsafe_code)]

mod code;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

/// Implements the trait `asyncsteps::Code`: each variant of an error type has an error code that
/// callers of a service see (FTN3 §1.9).
///
/// The code is the name of the variant, or of a struct. On a variant, a struct or an enum:
///
/// | attribute | meaning |
/// |---|---|
/// | `#[code("CardRefused")]` | another code; not on an enum |
/// | `#[code(public)]` | callers may read the text of the error (its `Display`) as `edesc`; on an enum, that of all variants |
/// | `#[code("CardRefused", public)]` | both |
///
/// Without `public` the text is for logs only.
///
/// With the feature `serde` of `asyncsteps`, the value of a type without parameters that is `Serialize` and
/// `DeserializeOwned` can be recorded (`Code::to_json`).
#[proc_macro_derive(Code, attributes(code))]
pub fn derive_code(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    code::implement(&input).unwrap_or_else(syn::Error::into_compile_error).into()
}
