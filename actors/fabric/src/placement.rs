//! Where calls go.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::Value;

use crate::call::Call;
use crate::live_nodes::LiveNodes;
use crate::node::NodeId;

/// Where the calls of a function go, see [`Client::placement`](crate::Client::placement).
///
/// It is for locality: caches, queues and locks that are worth more where the same key comes again. It does
/// not exclude: while nodes come and go, two nodes may be taken for the owner of a key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Placement {
    /// To any node that serves the function. The default.
    #[default]
    Any,
    /// To the node that owns the key, which is this parameter of the call: rendezvous hashing over the
    /// [live nodes](LiveNodes) that serve the function, so that a node that comes or goes moves only the
    /// keys that it gets or had. If this process owns the key, the call does not leave it. A call without
    /// the parameter goes to any node, and so does the second attempt at a call whose owner is gone.
    Sticky {
        /// The name of the parameter.
        parameter: Arc<str>,
    },
    /// To this node, or not at all.
    Node(NodeId),
}

impl Placement {
    /// To the node that owns the value of a parameter, see [`Sticky`](Self::Sticky).
    pub fn sticky(parameter: impl Into<Arc<str>>) -> Self {
        Self::Sticky { parameter: parameter.into() }
    }

    /// The node that a call goes to; `None` for any.
    pub(crate) fn node(&self, call: &Call, live: impl FnOnce() -> LiveNodes) -> Option<NodeId> {
        match self {
            Self::Any => None,
            Self::Sticky { parameter } => {
                let key = key(call.invocation.params.get(&**parameter)?);
                live().owner(call.function(), key.as_bytes()).cloned()
            }
            Self::Node(node) => Some(node.clone()),
        }
    }
}

/// A parameter as a key: a text as it is, anything else as JSON.
fn key(value: &Value) -> Cow<'_, str> {
    value.as_str().map_or_else(|| Cow::Owned(value.to_string()), Cow::Borrowed)
}
