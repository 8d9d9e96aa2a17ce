//! The tests of the console.

mod durable;
mod page;
