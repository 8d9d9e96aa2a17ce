//! Frequent mistakes in functions are refused, and the message says what to do.

#[path = "../../engine/steps/tests/shared/mistakes.rs"]
mod mistakes;

#[test]
fn mistakes_are_refused() {
    mistakes::check("tests/compile_fail/functions", asyncsteps_rustc_args::dependencies!());
}
