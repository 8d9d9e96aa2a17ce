//! The binary codings: tokens into values with byte strings, and values into bytes by their declared
//! types.

pub(super) mod cbor;
pub(super) mod msgpack;
mod reader;
mod sink;
mod token;
mod value;

pub(super) use self::reader::read;
pub(super) use self::sink::{Sink, data, write, write_result};
pub(super) use self::value::BinaryValue;
