//! Where a test finds its own dependencies, to compile other programs with them.

use std::env;

use proc_macro::TokenStream;

/// The arguments of rustc that name the dependencies of the crate being compiled, as a `&[&str]`.
///
/// A macro runs inside of the compiler, so its process has them. So programs can be compiled against
/// what cargo has built already, instead of building all of it once more.
#[proc_macro]
pub fn dependencies(_: TokenStream) -> TokenStream {
    let mut dependencies = Vec::new();
    let mut args = env::args();
    while let Some(arg) = args.next() {
        if arg == "--extern" || arg == "-L" {
            dependencies.push(arg);
            dependencies.extend(args.next());
        }
    }
    // a list of texts is an expression
    format!("&{dependencies:?}").parse().unwrap_or_default()
}
