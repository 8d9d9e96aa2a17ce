//! Frequent mistakes are refused, and the message says what to do.
//!
//! Programs that compile and are wrong when they run are in `mistakes.rs`.

#[path = "../shared/mistakes.rs"]
mod mistakes;

#[test]
fn mistakes_are_refused() {
    mistakes::check("tests/compile_fail", asyncsteps_rustc_args::dependencies!());
}
