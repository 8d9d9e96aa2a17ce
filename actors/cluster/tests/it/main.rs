//! Locks between nodes, on a PostgreSQL server that the tests start.

/// A process that is stopped, killed, or goes on.
mod child;
/// Requests at once, checked against a model.
mod histories;
/// Sections at once, on all nodes together.
mod limiter;
/// What a store does to a few locks.
mod model;
/// Two nodes in one process share locks.
mod mutex;
/// What happens to the locks of a process that is killed or stopped.
mod processes;
/// Settings and names that cannot be used.
mod refused;
/// The server goes away and comes back.
mod restart;

/// Rates of all nodes together.
mod throttle;
mod world;
