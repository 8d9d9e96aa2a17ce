//! The promise: the page on a first service shows the program that its tests run.

const PAGE: &str = include_str!("../../actors/asyncsteps/src/docs/first_service.md");
const PROGRAM: &str = include_str!("../../executor-demo/template/src/main.rs");

#[test]
fn the_page_has_the_whole_program() {
    let (_, rest) = PAGE.split_once("```rust,no_run\n").expect("a program");
    let (shown, _) = rest.split_once("```").expect("an end");
    assert_eq!(shown, PROGRAM);
}
