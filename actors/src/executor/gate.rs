//! Limits per client, before a request is read (FTN6 §1.5).

/// A place inside of the limits of a client, until this is dropped.
#[derive(Debug, Default)]
#[must_use = "dropping it gives the place back"]
pub struct Pass(());
