//! Messages into bytes: the one place that chooses how a coding is written.

use serde::Serialize;

use super::binary::{Sink, cbor, msgpack};
use super::coding::Coding;
use crate::iface::Function;

/// A message that can be written in each coding: in JSON by its [`Serialize`].
pub(super) trait Encode: Serialize {
    /// Writes the message as one map, with byte strings where `function` declares `data`.
    fn encode(&self, sink: &mut impl Sink, function: Option<&Function>);
}

/// Appends `message` to `out`.
pub(super) fn write(
    message: &impl Encode,
    coding: Coding,
    function: Option<&Function>,
    out: &mut Vec<u8>,
) {
    match coding {
        Coding::Json => {
            // a `Value` has only string keys, so this cannot fail
            let written = serde_json::to_writer(out, message);
            debug_assert!(written.is_ok(), "a vector takes all bytes");
        }
        Coding::MsgPack => {
            out.extend_from_slice(Coding::MSGPACK);
            message.encode(&mut msgpack::MsgpackWriter(out), function);
        }
        Coding::Cbor => {
            out.extend_from_slice(Coding::CBOR);
            message.encode(&mut cbor::CborWriter(out), function);
        }
    }
}
