//! The tests of the crate's program; its modules have theirs beside them.

mod ftn3_typescript;
