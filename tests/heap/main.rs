//! Tests that count allocations: a program of their own, because counting changes how memory grows, which others measure.

mod executor_overload;
mod sync_limits;
