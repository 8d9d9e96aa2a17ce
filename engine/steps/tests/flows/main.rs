//! What flows promise, one promise per file.

/// What a branch of a parallel step can be.
mod branches;
/// Cancel handlers from the innermost step outwards; drop is cancel.
mod cancel;
/// Completing a step from outside: once, from any thread, and never too late.
mod completions;
/// A flow can say where each of its branches is and why it waits.
mod inspect;
/// The branches, limits and values around a step.
mod lineage;
/// Break, continue and what loops go over.
mod loops;
/// Panics fail a step and go no further.
mod panics;
/// What was sent to a step counts, and a cancel is heard before the next step.
mod races;
/// Large and deep flows take neither the stack nor quadratic time.
mod scale;
/// Values that live as long as their step.
mod stack_values;
/// Mutex, throttle and limiter for flows on one event loop.
mod sync;
/// Templates share their steps and copy their state.
mod templates;
/// Time limits and waits for a point in time.
mod timers;
/// Bursts, and giving up a turn.
mod turns;

mod support;
