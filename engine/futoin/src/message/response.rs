//! Answers (FTN3 §1.7).

use serde::{Serialize, Serializer, ser::SerializeMap};
use serde_json::Value;

use super::{
    binary::{self, Sink},
    cbor,
    coding::Coding,
    msgpack,
    request::Rid,
    signed::Signed,
};
use crate::iface::{Function, INTERNAL_ERROR};

/// An answer (FTN3 §1.7): a result or an error, never both.
#[derive(Debug, Clone, PartialEq)]
pub struct Response {
    body: Body,
    rid: Option<Rid>,
    sec: Option<Value>,
}

#[derive(Debug, Clone, PartialEq)]
enum Body {
    Result(Value),
    Error { code: String, description: Option<String> },
}

impl Response {
    /// A success with the result `r`: a map of variables, or the value itself for a function whose
    /// result is a type.
    #[must_use]
    pub fn success(result: Value) -> Self {
        Self { body: Body::Result(result), rid: None, sec: None }
    }

    /// A failure with the code `e` and, if there is one, the description `edesc`.
    #[must_use]
    pub fn error(code: &str, description: Option<&str>) -> Self {
        let description = description.map(ToOwned::to_owned);
        Self { body: Body::Error { code: code.to_owned(), description }, rid: None, sec: None }
    }

    /// The same with the id of the request it answers.
    #[must_use]
    pub fn with_rid(self, rid: Option<&Rid>) -> Self {
        Self { rid: rid.cloned(), ..self }
    }

    /// The same with a signature (FTN8).
    #[must_use]
    pub fn with_sec(self, sec: Value) -> Self {
        Self { sec: Some(sec), ..self }
    }

    /// The id of the request it answers.
    #[must_use]
    pub fn rid(&self) -> Option<&Rid> {
        self.rid.as_ref()
    }

    /// The result; `None` for a failure.
    #[must_use]
    pub fn result(&self) -> Option<&Value> {
        match &self.body {
            Body::Result(result) => Some(result),
            Body::Error { .. } => None,
        }
    }

    /// The error code; `None` for a success.
    #[must_use]
    pub fn code(&self) -> Option<&str> {
        match &self.body {
            Body::Result(_) => None,
            Body::Error { code, .. } => Some(code),
        }
    }

    /// The result.
    ///
    /// # Errors
    /// Code and description of a failure.
    pub fn into_result(self) -> Result<Value, (String, Option<String>)> {
        match self.body {
            Body::Result(result) => Ok(result),
            Body::Error { code, description } => Err((code, description)),
        }
    }

    /// What a signature covers (FTN8): every field but `sec`, as it will be written in `coding`.
    /// `function` is what is answered, if it is known.
    #[must_use]
    pub fn signed_fields<'a>(
        &'a self,
        coding: Coding,
        function: Option<&'a Function>,
    ) -> Signed<'a> {
        let mut signed = Signed::default();
        match &self.body {
            Body::Result(result) => {
                let kinds = function.filter(|_| coding != Coding::Json);
                signed.result("r", result, kinds);
            }
            Body::Error { code, description } => {
                signed.text("e", code);
                if let Some(description) = description {
                    signed.text("edesc", description);
                }
            }
        }
        if let Some(rid) = &self.rid {
            signed.value("rid", &rid.0);
        }
        signed
    }

    /// Appends the answer to `out`. The binary codings write byte strings where `function`, which
    /// is what is answered, declares `data` in its result.
    pub fn write(&self, coding: Coding, function: Option<&Function>, out: &mut Vec<u8>) {
        match coding {
            Coding::Json => self.write_json(out),
            Coding::MsgPack => {
                out.extend_from_slice(Coding::MSGPACK);
                self.write_items(&mut msgpack::Writer(out), function);
            }
            Coding::Cbor => {
                out.extend_from_slice(Coding::CBOR);
                self.write_items(&mut cbor::Writer(out), function);
            }
        }
    }

    fn write_json(&self, out: &mut Vec<u8>) {
        let start = out.len();
        if let Err(error) = serde_json::to_writer(&mut *out, self) {
            // A vector takes all bytes and a `Value` has only string keys, so this is a bug.
            debug_assert!(false, "a response was not written: {error}");
            out.truncate(start);
            out.extend_from_slice(format!(r#"{{"e":"{INTERNAL_ERROR}"}}"#).as_bytes());
        }
    }

    fn write_items(&self, sink: &mut impl Sink, function: Option<&Function>) {
        let extra = usize::from(self.rid.is_some()) + usize::from(self.sec.is_some());
        match &self.body {
            Body::Result(result) => {
                sink.map(1 + extra);
                sink.text("r");
                binary::write_result(sink, result, function);
            }
            Body::Error { code, description } => {
                sink.map(1 + usize::from(description.is_some()) + extra);
                sink.text("e");
                sink.text(code);
                if let Some(description) = description {
                    sink.text("edesc");
                    sink.text(description);
                }
            }
        }
        for (name, value) in
            [("rid", self.rid.as_ref().map(Rid::as_value)), ("sec", self.sec.as_ref())]
        {
            if let Some(value) = value {
                sink.text(name);
                binary::write(sink, value, None);
            }
        }
    }
}

impl Serialize for Response {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        match &self.body {
            Body::Result(result) => map.serialize_entry("r", result)?,
            Body::Error { code, description } => {
                map.serialize_entry("e", code)?;
                if let Some(description) = description {
                    map.serialize_entry("edesc", description)?;
                }
            }
        }
        if let Some(Rid(rid)) = &self.rid {
            map.serialize_entry("rid", rid)?;
        }
        if let Some(sec) = &self.sec {
            map.serialize_entry("sec", sec)?;
        }
        map.end()
    }
}
