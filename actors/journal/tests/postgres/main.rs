//! A journal on a server: crashes of the server, and several nodes beside each other.

mod crash;
#[path = "../flows/mod.rs"]
mod flows;
mod nodes;
