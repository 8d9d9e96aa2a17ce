//! What flows promise, one promise per file.

/// A completion that was accepted is not lost, whatever the body does meanwhile.
mod accepted;
/// A branch can be any kind of step.
mod branches;
/// Cancel handlers from the innermost step outwards; drop is cancel.
mod cancel;
/// Completing a step from outside: once, from any thread, and never too late.
mod completions;
/// A flow shows where each of its branches is and why it waits.
mod inspect;
/// The branches, limits and values around a step.
mod lineage;
/// Break, continue and what loops go over.
mod loops;
/// An observer hears whether time can have passed.
mod observers;
/// Panics fail a step and go no further.
mod panics;
/// A result that was accepted completes its step, and a cancel takes effect before the next step.
mod races;
/// Large and deep flows neither overflow the stack nor take quadratic time.
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
