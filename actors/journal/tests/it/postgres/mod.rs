//! A journal on a server: crashes of the server, and several nodes beside each other.

mod crash;
mod nodes;
mod plans;
mod pooler;
mod silent;
