//! A journal on a server: crashes of the server, and several nodes beside each other.

mod crash;
mod failover;
mod faults;
mod load;
mod moves;
mod nodes;
mod plans;
mod pooler;
mod sequences;
mod silent;
