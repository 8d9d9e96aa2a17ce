//! A journal in a file: what it survives, what it says of files that it cannot use, and how flows share
//! flushes.

mod backups;
mod files;
mod flushes;
mod formats;
mod held_log;
mod kill;
mod pieces;
mod removed;
mod shrinks;
mod whole;
pub(crate) mod world;
