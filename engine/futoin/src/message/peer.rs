//! Both sides of a bi-directional channel (FTN3 §1.5): each calls and answers.

use std::borrow::Cow;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::Value;

use super::binary::{self, Sink};
use super::coding::Coding;
use super::decode::{Fields, Params};
use super::encode::{self, Encode};
use super::refused::RefusedMessage;
use super::request::Request;
use super::response::Response;
use super::rid::Rid;
use crate::iface::{Function, Parameter};

/// A frame of a channel on which both sides may call.
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "there is nothing else in FTN3")]
pub enum Message {
    /// The peer calls.
    Request(Request),
    /// The peer answers a call. Byte strings are base64 text in it.
    Response(Response),
}

impl Message {
    /// Reads one message. It is an answer if it has `r` or `e` and no `f`.
    ///
    /// # Errors
    /// As [`Request::parse`].
    pub fn parse(bytes: &[u8]) -> Result<Self, RefusedMessage> {
        let coding = Coding::detect(bytes);
        let fields = Fields::read(coding, bytes);
        let mut fields = fields.map_err(|why| RefusedMessage::malformed(coding, why))?;
        if fields.f.is_none()
            && let Some(response) = answer(&mut fields)
        {
            return Ok(Self::Response(response));
        }
        Request::from_fields(fields, coding).map(Self::Request)
    }
}

fn answer(fields: &mut Fields) -> Option<Response> {
    let flaw = fields.flaw.take();
    let mut take = |name: &str| {
        let at = fields.unknown.iter().rposition(|(field, _)| field == name)?;
        Some(fields.unknown.swap_remove(at).1)
    };
    let text = |value: Option<Value>| value.and_then(|value| Some(value.as_str()?.to_owned()));
    let response = match (text(take("e")), take("r")) {
        (None, None) => return None,
        // the call has ended, and it is not known how
        _ if flaw.is_some() => Response::error("CommError", flaw.as_deref()),
        (Some(code), _) => Response::error(&code, text(take("edesc")).as_deref()),
        (None, Some(result)) => Response::success(result),
    };
    let response = match fields.sec.take() {
        Some(sec) => response.with_sec(sec),
        None => response,
    };
    Some(response.with_rid(fields.rid.take().and_then(Rid::new).as_ref()))
}

impl Request {
    /// The same with an id, which its answer will repeat.
    #[must_use]
    pub fn with_rid(self, rid: Rid) -> Self {
        Self { rid: Some(rid), ..self }
    }

    /// Appends the request to `out`. The binary codings write byte strings where `function`, the function
    /// that is called, declares `data`.
    pub fn write(&self, coding: Coding, function: Option<&Function>, out: &mut Vec<u8>) {
        encode::write(self, coding, function, out);
    }

    /// The fields behind `f`, in the order they are written.
    fn fields(&self) -> impl Iterator<Item = (&str, Cow<'_, Value>)> {
        let params = self.p.as_ref().map(|params| match params {
            Params::Json(value) => Cow::Borrowed(value),
            Params::Binary(value) => Cow::Owned(value.clone().into_value()),
        });
        let known = [
            ("p", params),
            ("rid", self.rid.as_ref().map(|rid| Cow::Borrowed(rid.as_value()))),
            ("sec", self.sec.as_ref().map(Cow::Borrowed)),
            ("obf", self.obf.as_ref().map(Cow::Borrowed)),
            ("forcersp", self.forcersp.map(|flag| Cow::Owned(Value::Bool(flag)))),
        ];
        let known = known.into_iter().filter_map(|(name, value)| Some((name, value?)));
        let unknown = self.unknown.iter().map(|(name, value)| (&**name, Cow::Borrowed(value)));
        known.chain(unknown)
    }
}

impl Encode for Request {
    fn encode(&self, sink: &mut impl Sink, function: Option<&Function>) {
        sink.map(1 + self.fields().count());
        sink.text("f");
        self.f.encode(sink);
        for (name, value) in self.fields() {
            sink.text(name);
            match (name, value.as_object()) {
                ("p", Some(params)) => {
                    sink.map(params.len());
                    for (name, value) in params {
                        let param = function.and_then(|function| function.param(name));
                        sink.text(name);
                        binary::write(sink, value, param.map(Parameter::declared_type));
                    }
                }
                _ => binary::write(sink, &value, None),
            }
        }
    }
}

impl Serialize for Request {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("f", &self.f)?;
        for (name, value) in self.fields() {
            map.serialize_entry(name, &*value)?;
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_frame_is_a_call_or_an_answer() {
        let rid = Rid::new(json!("S1"));
        for (frame, expected) in [
            (r#"{"r":{"ack":10},"rid":"S1"}"#, Response::success(json!({"ack": 10}))),
            (r#"{"r":null,"rid":"S1"}"#, Response::success(json!(null))),
            (r#"{"e":"E","edesc":"why","rid":"S1"}"#, Response::error("E", Some("why"))),
            (r#"{"e":"E","r":1,"rid":"S1"}"#, Response::error("E", None)),
            (
                r#"{"r":1,"r":2,"rid":"S1"}"#,
                Response::error("CommError", Some("Invalid message: duplicate key r")),
            ),
            (
                r#"{"r":1,"sec":"MAC","rid":"S1"}"#,
                Response::success(json!(1)).with_sec(json!("MAC")),
            ),
        ] {
            let message = Message::parse(frame.as_bytes()).unwrap();
            assert_eq!(message, Message::Response(expected.with_rid(rid.as_ref())), "{frame}");
        }
        let call = br#"{"f":"a.b:1.0:f","p":{},"r":1,"rid":"C1"}"#;
        assert_eq!(Message::parse(call), Ok(Message::Request(Request::parse(call).unwrap())));
        for frame in ["null", "5", r#"{"r":1"#, ""] {
            let refusal = Message::parse(frame.as_bytes()).unwrap_err();
            assert_eq!(refusal.to_string(), "Missing req.f", "{frame}");
        }
        for frame in ["{}", r#"{"rid":"S1"}"#, r#"{"e":5}"#] {
            let Ok(Message::Request(request)) = Message::parse(frame.as_bytes()) else {
                panic!("no answer: {frame}")
            };
            assert_eq!(request.function_name().unwrap_err().to_string(), "Missing req.f");
        }
    }

    #[test]
    fn a_request_written_is_read_again() {
        let params = json!({"n": 1, "s": "é", "l": [null, true, -1.5]});
        let request = Request::new("a.b:1.0:f", params.as_object().unwrap().clone())
            .with_rid(Rid::new(json!("S1")).unwrap())
            .with_sec(json!("u:p"));
        for coding in [Coding::Json, Coding::MsgPack, Coding::Cbor] {
            let mut bytes = Vec::new();
            request.write(coding, None, &mut bytes);
            let again = Request::parse(&bytes).unwrap();
            assert_eq!(again.coding(), coding);
            assert_eq!(again.signed_fields().base(), request.signed_fields().base());
            assert_eq!((again.rid(), again.sec()), (request.rid(), request.sec()));
        }
        let mut bytes = Vec::new();
        let request = Request::new("a.b:1.0:f", Default::default());
        request.write(Coding::Json, None, &mut bytes);
        assert_eq!(bytes, br#"{"f":"a.b:1.0:f","p":{}}"#);
        bytes.clear();
        request.with_forcersp().write(Coding::Json, None, &mut bytes);
        assert_eq!(bytes, br#"{"f":"a.b:1.0:f","p":{},"forcersp":true}"#);
    }
}
