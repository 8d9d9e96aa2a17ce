//! The interfaces that a node serves.

use asyncsteps_executor::Executor;
use asyncsteps_executor::iface::{Compatibility, FunctionName, IfaceVer};

/// An interface that a node serves: all its functions, in this version and each older minor one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    interface: IfaceVer,
}

impl Endpoint {
    /// An interface in its newest version.
    #[must_use]
    pub fn new(interface: IfaceVer) -> Self {
        Self { interface }
    }

    /// All interfaces that an executor hosts, including inherited ones.
    #[must_use]
    pub fn all(executor: &Executor) -> Vec<Self> {
        let mut names = Vec::new();
        for interface in executor.catalog().interfaces {
            names.push(format!("{}:{}", interface.iface, interface.version));
            names.extend(interface.inherits);
        }
        names.sort_unstable();
        names.dedup();
        names.iter().filter_map(|name| Some(Self::new(name.parse().ok()?))).collect()
    }

    /// The interface in its newest version.
    #[must_use]
    pub fn interface(&self) -> &IfaceVer {
        &self.interface
    }

    /// Whether calls of this function may go here.
    pub(crate) fn serves(&self, function: &FunctionName) -> bool {
        let version = self.interface.version();
        self.interface.iface() == function.iface()
            && version.serves(function.version()) == Compatibility::Served
    }
}
