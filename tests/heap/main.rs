//! Tests that count allocations: a program of their own, because others measure how the memory of the system's allocator
//! grows.

mod executor_overload;
mod function_calls;
mod sync_limits;

#[global_allocator]
static HEAP: asyncsteps_counted_heap::Heap = asyncsteps_counted_heap::Heap;
