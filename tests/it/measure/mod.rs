//! The promise: logic in steps is shorter than plain Rust. `charge` and `notify` are written in steps
//! and with actix-web and tokio; both do the same ([`scenarios`]), and what they cost a reader is
//! counted ([`count`]), with goals that hold. The table is printed by
//!
//! ```sh
//! cargo test --test it goals -- --nocapture
//! ```

mod charge;
mod charge_plain;
mod count;
mod errors;
mod notify;
mod notify_plain;
mod scenarios;
mod versions;
mod world;

use count::Counts;

const ERRORS: &str = include_str!("errors.rs");
const CHARGE: &str = include_str!("charge.rs");
const CHARGE_PLAIN: &str = include_str!("charge_plain.rs");
const NOTIFY: &str = include_str!("notify.rs");
const NOTIFY_PLAIN: &str = include_str!("notify_plain.rs");
const SHOP: &str = include_str!("../../../executor-demo/src/shop.rs");

/// A piece of logic, and how much of it there may be.
struct Row {
    name: &'static str,
    files: &'static [&'static str],
    goal: Option<Counts>,
}

const ROWS: &[Row] = &[
    Row {
        name: "charge, in steps",
        files: &[CHARGE, ERRORS],
        goal: Some(Counts { lines: 36, clones: 1, moves: 0, nesting: 3 }),
    },
    Row { name: "charge, plain", files: &[CHARGE_PLAIN, ERRORS], goal: None },
    Row {
        name: "notify, in steps",
        files: &[NOTIFY],
        goal: Some(Counts { lines: 19, clones: 1, moves: 0, nesting: 3 }),
    },
    Row { name: "notify, plain", files: &[NOTIFY_PLAIN], goal: None },
    Row {
        name: "shop.rs",
        files: &[SHOP],
        goal: Some(Counts { lines: 95, clones: 2, moves: 0, nesting: 2 }),
    },
];

#[test]
fn goals() {
    println!("{:20}{:>8}{:>8}{:>8}{:>10}", "", "lines", "clones", "moves", "nesting");
    let mut missed = Vec::new();
    for Row { name, files, goal } in ROWS {
        let counts = Counts::of(files);
        let Counts { lines, clones, moves, nesting } = counts;
        println!("{name:20}{lines:>8}{clones:>8}{moves:>8}{nesting:>10}");
        if let Some(goal) = goal.filter(|goal| counts.exceeds(*goal)) {
            missed.push(format!("{name}: {counts:?}, the goal is {goal:?}"));
        }
    }
    assert!(missed.is_empty(), "{missed:#?}");
}
