//! The promise: with a journal, every order that was accepted ends, in whatever process, and is sold and
//! paid once.

mod commands;
mod one_process;
mod shops;
mod two_processes;
