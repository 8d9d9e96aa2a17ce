//! Nodes and their names.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// The longest name of a node, in bytes: the name of a host, and a number.
const MAX_NAME: usize = 64;

/// The name that means all nodes.
pub(crate) const ALL: &str = "all";

/// The name of a node: letters, digits, `-` and `_`, 64 at most. Each node of a fabric has its own.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(Arc<str>);

/// A text is no name of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a node is named with 1 to 64 letters, digits, - and _, and not \"all\"")]
#[non_exhaustive]
pub struct NodeIdError;

impl NodeId {
    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for NodeId {
    type Err = NodeIdError;

    fn from_str(name: &str) -> Result<Self, NodeIdError> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        let is_name = (1..=MAX_NAME).contains(&name.len()) && name.bytes().all(is_plain);
        match is_name && name != ALL {
            true => Ok(Self(name.into())),
            false => Err(NodeIdError),
        }
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A node that serves something.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub struct NodeInfo {
    /// Its name.
    pub node: String,
    /// The interfaces that it serves, `iface:version`, in their order.
    pub interfaces: Vec<String>,
    /// The calls that it carries out.
    pub in_flight: usize,
    /// Whether it takes no more calls.
    pub is_draining: bool,
    /// Whether it has not proved to the node that asks that it knows its
    /// [secret](crate::nats::Trust::secret): one of them refuses calls of the other on behalf of users. Always
    /// `false` for a node without a secret, and without NATS.
    #[serde(default)]
    pub has_other_secret: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit_into_a_subject() {
        for name in ["a", "node-1", "Host_2", &"x".repeat(MAX_NAME)] {
            assert_eq!(name.parse::<NodeId>().expect(name).as_str(), name);
        }
        for wrong in ["", "all", "a.b", "a b", "*", ">", "ü", &"x".repeat(MAX_NAME + 1)] {
            wrong.parse::<NodeId>().expect_err(wrong);
        }
    }
}
