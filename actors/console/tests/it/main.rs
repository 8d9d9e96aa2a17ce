//! The tests of the console.

mod durable;
mod entities;
mod page;
