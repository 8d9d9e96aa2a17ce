//! Derive macros of `asyncsteps`, and of the crates below it.
#![forbid(unsafe_code)]

mod code;

use proc_macro::TokenStream;
use quote::quote;
use syn::{DeriveInput, parse_macro_input};

/// Implements the trait `Code`: each variant of an error type has an error code that callers of a
/// service see (FTN3 §1.9).
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
/// Callers get a variant back (`Code::from_code`) that has no fields, or one that is all of its public text.
///
/// The value of a type without parameters that is `Serialize` and `DeserializeOwned` can be recorded
/// (`Code::to_json`).
#[proc_macro_derive(Code, attributes(code))]
pub fn derive_code(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    let code = code::implement(&input, &quote!(::asyncsteps));
    code.unwrap_or_else(syn::Error::into_compile_error).into()
}

/// [`Code`](derive@Code) for crates that depend on `asyncsteps-core`, which re-exports it under that name.
///
/// With the feature `serde` of `asyncsteps-core`, the value of a type without parameters that is
/// `Serialize` and `DeserializeOwned` can be recorded (`Code::to_json`).
#[proc_macro_derive(CoreCode, attributes(code))]
pub fn derive_core_code(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    let code = code::implement(&input, &quote!(::asyncsteps_core));
    code.unwrap_or_else(syn::Error::into_compile_error).into()
}
