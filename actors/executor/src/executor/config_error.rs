//! Why an executor cannot be built.

use asyncsteps_core::sync::ZeroLimit;
use asyncsteps_futoin::iface::IfaceVer;
use asyncsteps_futoin::typed::InterfaceError;

/// Why an executor cannot be built as asked.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A handler or template was added for a function that the interface does not declare.
    #[error("{iface} has no function {function}")]
    NoSuchFunction {
        /// The interface.
        iface: IfaceVer,
        /// The function.
        function: String,
    },
    /// Two handlers or templates were added for one function.
    #[error("{iface} got two handlers or templates for {function}")]
    Twice {
        /// The interface.
        iface: IfaceVer,
        /// The function.
        function: String,
    },
    /// The Rust types of a handler differ from the definition in this point; see
    /// [`Functions::on`](super::Functions).
    #[error("{iface}:{function}, {at}: {what}")]
    Type {
        /// The interface.
        iface: IfaceVer,
        /// The function.
        function: String,
        /// Where: `parameter seats`, `result order.items[]`.
        at: String,
        /// The difference between both sides.
        what: String,
    },
    /// The steps that a handler returns cannot be the plan of a function, or it panicked when it was asked for
    /// them.
    #[error("{iface}:{function}, {at}: {what}")]
    Plan {
        /// The interface.
        iface: IfaceVer,
        /// The function.
        function: String,
        /// Where in the source: file, line and column.
        at: String,
        /// The mistake.
        what: String,
    },
    /// A definition cannot be written down from the types of handlers.
    #[error("{iface} cannot be written down: {error:?}")]
    Written {
        /// The interface.
        iface: IfaceVer,
        /// The type or name that cannot be written.
        error: Box<InterfaceError>,
    },
    /// An error of a service has a code that no function of the interface `throws`, so no caller could
    /// ever see it (FTN3 §1.9). Standard codes need no `throws`, except for the codes that invokers
    /// generate (Timeout, ConnectError, CommError, InvokerError), and a function without a result has
    /// none.
    #[error(
        "{iface} has no function that throws {code}, which is a code of the service's errors: declare it \
         in the `throws` of a function with a result"
    )]
    Undeclared {
        /// The interface.
        iface: IfaceVer,
        /// The code.
        code: &'static str,
    },
    /// Declared functions got no handler, no template and no
    /// [`not_implemented`](super::Functions::not_implemented).
    #[error("{iface} got no handler or template for {functions}")]
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
    /// A function of another interface is listed as a tool under the same name.
    #[error("{iface} lists a tool under the name of {function}, which is one")]
    ToolTwice {
        /// The interface.
        iface: IfaceVer,
        /// The function that is a tool.
        function: String,
    },
    /// Several things are wrong.
    #[error("{}", lines(.0))]
    Several(Vec<Self>),
}

asyncsteps_futoin::debug_as_report!(ConfigError);

impl ConfigError {
    /// These errors as one, if there are any.
    pub(super) fn of(mut errors: Vec<Self>) -> Option<Self> {
        match errors.len() {
            0 => None,
            1 => errors.pop(),
            _ => {
                let mut all = Vec::with_capacity(errors.len());
                for error in errors {
                    if let Self::Several(inner) = error {
                        all.extend(inner);
                    } else {
                        all.push(error);
                    }
                }
                Some(Self::Several(all))
            }
        }
    }
}

fn lines(errors: &[ConfigError]) -> String {
    errors.iter().map(ConfigError::to_string).collect::<Vec<_>>().join("\n")
}
