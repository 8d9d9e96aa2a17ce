//! AsyncSteps flows, locks and the FutoIn Executor on actix actors.
