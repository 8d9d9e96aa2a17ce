//! The tests of the demo: one program, because each program that is linked takes longer than most tests.

mod crash;
mod deploy;
mod docs;
mod durable;
mod idle;
mod log;
mod nodes;
mod otlp;
mod pages;
mod plan;
mod simulated;
mod start;
mod stop;
