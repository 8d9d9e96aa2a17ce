//! The tests of the binary interface from Rust: one program, because each program that is linked takes longer than most
//! tests. Those of programs in other languages are `programs`, which AddressSanitizer does not run.

mod binary;
mod programs;
mod state;
mod threads;
mod wrap;
