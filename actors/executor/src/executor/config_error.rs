//! Why an executor cannot be built.

use asyncsteps::sync::ZeroLimit;
use asyncsteps_futoin::iface::IfaceVer;

/// Why an executor cannot be built as asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A template was given for a function that the interface does not declare.
    #[error("{iface} has no function {function}")]
    NoSuchFunction {
        /// The interface.
        iface: IfaceVer,
        /// The function.
        function: String,
    },
    /// Two templates were given for one function.
    #[error("{iface} got two templates for {function}")]
    Twice {
        /// The interface.
        iface: IfaceVer,
        /// The function.
        function: String,
    },
    /// Declared functions got neither a template nor
    /// [`not_implemented`](super::Functions::not_implemented).
    #[error("{iface} got no template for {functions}")]
    Missing {
        /// The interface.
        iface: IfaceVer,
        /// The functions, separated by commas.
        functions: String,
    },
    /// A limiter of clients would let no client in.
    #[error("the limiter {name} cannot be used: {zero}")]
    ZeroLimit {
        /// The name of the limiter.
        name: String,
        /// Which of its limits is 0.
        zero: ZeroLimit,
    },
    /// Clients are to have a limiter that is not defined.
    #[error("there is no limiter {name}")]
    NoSuchLimiter {
        /// The name.
        name: String,
    },
    /// The interface is hosted in the same major version already.
    #[error("{iface} is registered already")]
    Registered {
        /// The interface.
        iface: IfaceVer,
    },
    /// A hosted interface inherits from the same one: a call under the parent's name could be meant for
    /// either (FTN3 §2.3).
    #[error("{iface} inherits from {parent}, as another hosted interface does")]
    ParentShared {
        /// The interface.
        iface: IfaceVer,
        /// The one that both inherit from.
        parent: IfaceVer,
    },
}
