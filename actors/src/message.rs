//! FutoIn messages as typed values (FTN3 §1.6, §1.7), coded as JSON.
//!
//! [`Request::parse`] accepts any bytes and never panics; what it cannot read becomes a
//! [`Refusal`], which is an answer to send. It finds out only what belongs to the message as such.
//! The rest has its turn in the executor, because FTN6 §1 orders the checks: the function's name
//! in [`Request::function_name`], parameters in [`Request::take_params`], unknown fields in
//! [`Request::check_fields`].
//!
//! Of a field that is repeated, at any depth, the last one counts, as in every ECMAScript peer:
//! the signature check, the parameter check and the handler all see that one.
//!
//! JSON is the only coding yet. Reading and writing go through `serde`, so another coding needs
//! its own opening lines of [`Request::parse`] and [`Response::write`] only.
//!
//! ```
//! use asyncsteps_actors::message::{Request, Response};
//! use serde_json::json;
//!
//! let body = br#"{"f":"conform.main:1.2:echo","p":{"msg":"hi"},"rid":"C1"}"#;
//! let response = match Request::parse(body) {
//!     Ok(request) => Response::success(json!({"msg": "hi"})).with_rid(request.rid()),
//!     Err(refusal) => refusal.into_response(),
//! };
//! let mut bytes = Vec::new();
//! response.write(&mut bytes);
//! assert_eq!(bytes, br#"{"r":{"msg":"hi"},"rid":"C1"}"#);
//! ```

use std::{borrow::Cow, fmt};

use serde::{
    Serialize, Serializer,
    de::{Deserialize, DeserializeSeed, Deserializer, MapAccess, Visitor},
    ser::SerializeMap,
};
use serde_json::{Map, Value};

use crate::iface::{FunctionName, INTERNAL_ERROR, INVALID_REQUEST, NameError, clipped};

/// Deepest nesting of objects and lists in a message. Real messages stay below ten; at this depth
/// the recursion of parser, checker and destructor needs a few kilobytes of stack.
const MAX_DEPTH: usize = 64;

/// The text for anything that is no request at all.
const NO_FUNCTION: &str = "Missing req.f";

/// A request as it came, not yet checked against an interface (FTN3 §1.6).
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    f: Value,
    p: Option<Value>,
    rid: Option<Rid>,
    sec: Option<Value>,
    obf: Option<Value>,
    forcersp: Option<bool>,
    unknown: Vec<(String, Value)>,
}

impl Request {
    /// Reads one JSON message.
    ///
    /// # Errors
    /// "Missing req.f" for anything but a JSON object with a field `f`; "Invalid message: ..." if
    /// it is nested more than 64 deep, if `rid` is neither string nor number, or if `forcersp` is
    /// not a boolean. The refusal has the `rid` if one could be read.
    pub fn parse(bytes: &[u8]) -> Result<Self, Refusal> {
        // Depth first: it needs no stack, and nothing is built for a message beyond the limit.
        if is_too_deep(bytes) {
            return Err(Refusal::new("Invalid message: nested too deep"));
        }
        let mut fields = Fields::default();
        let read = str::from_utf8(bytes).is_ok_and(|text| {
            let mut json = serde_json::Deserializer::from_str(text);
            fields.deserialize_into(&mut json).and_then(|()| json.end()).is_ok()
        });
        fields.into_request(read)
    }

    /// A request that came in another form than a message, such as a URL (FTN5).
    #[must_use]
    pub fn new(f: &str, params: Map<String, Value>) -> Self {
        Self {
            f: f.into(),
            p: Some(params.into()),
            rid: None,
            sec: None,
            obf: None,
            forcersp: None,
            unknown: Vec::new(),
        }
    }

    /// The same with credentials (FTN8).
    #[must_use]
    pub fn with_sec(self, sec: Value) -> Self {
        Self { sec: Some(sec), ..self }
    }

    /// The function called.
    ///
    /// # Errors
    /// "Invalid req.f" or "Invalid req.f (version)".
    pub fn function_name(&self) -> Result<FunctionName, Refusal> {
        let name = self.f.as_str().ok_or(NameError::Parts).and_then(str::parse);
        name.map_err(|error| {
            let is_version = error == NameError::Version;
            let text = if is_version { "Invalid req.f (version)" } else { "Invalid req.f" };
            self.refuse(text)
        })
    }

    /// Takes the parameters out, for the check by `Function::check_params`.
    ///
    /// # Errors
    /// "Invalid message: p" if they are no object, or absent although the function has `declared`
    /// parameters.
    pub fn take_params(&mut self, declared: usize) -> Result<Map<String, Value>, Refusal> {
        match self.p.take() {
            Some(Value::Object(params)) => Ok(params),
            None if declared == 0 => Ok(Map::new()),
            _ => Err(self.refuse("Invalid message: p")),
        }
    }

    /// Refuses fields that FTN3 does not know; to be called after the parameters were checked.
    ///
    /// # Errors
    /// "Unknown request field: ..." with the first of them.
    pub fn check_fields(&self) -> Result<(), Refusal> {
        match self.unknown.first() {
            Some((name, _)) => {
                Err(self.refuse(format!("Unknown request field: {}", clipped(name))))
            }
            None => Ok(()),
        }
    }

    /// A refusal of this request: InvalidRequest with `text`, and the request's `rid`.
    #[must_use]
    pub fn refuse(&self, text: impl Into<Cow<'static, str>>) -> Refusal {
        Refusal { rid: self.rid.clone(), ..Refusal::new(text) }
    }

    /// What the answer must repeat (FTN3 §1.3).
    #[must_use]
    pub fn rid(&self) -> Option<&Rid> {
        self.rid.as_ref()
    }

    /// Credentials or signature, as sent (FTN8).
    #[must_use]
    pub fn sec(&self) -> Option<&Value> {
        self.sec.as_ref()
    }

    /// On behalf of whom, as sent (FTN3 §1.11).
    #[must_use]
    pub fn obf(&self) -> Option<&Value> {
        self.obf.as_ref()
    }

    /// Whether the caller wants an answer even from a function without a result (FTN3 §1.1).
    #[must_use]
    pub fn forcersp(&self) -> bool {
        self.forcersp.unwrap_or_default()
    }

    /// Every field but `sec`, as sent, unknown ones too: what a signature covers (FTN8). To be
    /// called before the parameters are taken.
    #[must_use]
    pub fn signed_fields(&self) -> Map<String, Value> {
        let known = [
            ("f", Some(self.f.clone())),
            ("p", self.p.clone()),
            ("rid", self.rid.clone().map(|rid| rid.0)),
            ("obf", self.obf.clone()),
            ("forcersp", self.forcersp.map(Value::Bool)),
        ];
        let known = known.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
        known.chain(self.unknown.iter().cloned()).collect()
    }
}

/// A request id: a string as FTN3 §1.3 has it, or a number, which is repeated all the same.
#[derive(Debug, Clone, PartialEq)]
pub struct Rid(Value);

impl Rid {
    /// `None` unless `value` is a string or a number.
    #[must_use]
    pub fn new(value: Value) -> Option<Self> {
        (value.is_string() || value.is_number()).then_some(Self(value))
    }

    /// The id as a JSON value.
    #[must_use]
    pub fn as_value(&self) -> &Value {
        &self.0
    }
}

impl fmt::Display for Rid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_str() {
            Some(text) => f.write_str(text),
            None => self.0.fmt(f),
        }
    }
}

/// A request turned away before its function was reached: an InvalidRequest (FTN3 §1.9.1).
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{text}")]
pub struct Refusal {
    text: Cow<'static, str>,
    rid: Option<Rid>,
}

impl Refusal {
    fn new(text: impl Into<Cow<'static, str>>) -> Self {
        Self { text: text.into(), rid: None }
    }

    /// The error code, always InvalidRequest.
    #[must_use]
    pub fn code(&self) -> &'static str {
        INVALID_REQUEST
    }

    /// The request's id, if it could be read.
    #[must_use]
    pub fn rid(&self) -> Option<&Rid> {
        self.rid.as_ref()
    }

    /// The answer to send.
    #[must_use]
    pub fn into_response(self) -> Response {
        Response::error(INVALID_REQUEST, Some(&self.text)).with_rid(self.rid.as_ref())
    }
}

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

    /// Every field but `sec`: what a signature covers (FTN8).
    #[must_use]
    pub fn signed_fields(&self) -> Map<String, Value> {
        let mut fields = Map::new();
        match &self.body {
            Body::Result(result) => {
                fields.insert("r".to_owned(), result.clone());
            }
            Body::Error { code, description } => {
                fields.insert("e".to_owned(), code.as_str().into());
                if let Some(description) = description {
                    fields.insert("edesc".to_owned(), description.as_str().into());
                }
            }
        }
        if let Some(rid) = &self.rid {
            fields.insert("rid".to_owned(), rid.0.clone());
        }
        fields
    }

    /// Appends the answer to `out` as compact JSON.
    pub fn write(&self, out: &mut Vec<u8>) {
        let start = out.len();
        if let Err(error) = serde_json::to_writer(&mut *out, self) {
            // A vector takes all bytes and a `Value` has only string keys, so this is a bug.
            debug_assert!(false, "a response was not written: {error}");
            out.truncate(start);
            out.extend_from_slice(format!(r#"{{"e":"{INTERNAL_ERROR}"}}"#).as_bytes());
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

/// The fields of a request as they are read. They outlive a syntax error further on, so that its
/// refusal can repeat the `rid` that came before it.
#[derive(Debug, Default)]
struct Fields {
    f: Option<Value>,
    p: Option<Value>,
    rid: Option<Value>,
    sec: Option<Value>,
    obf: Option<Value>,
    forcersp: Option<Value>,
    unknown: Vec<(String, Value)>,
}

impl Fields {
    fn deserialize_into<'de, D: Deserializer<'de>>(&mut self, from: D) -> Result<(), D::Error> {
        DeserializeSeed::deserialize(self, from)
    }

    /// `read` says whether the message was read to its end.
    fn into_request(self, read: bool) -> Result<Request, Refusal> {
        // JSON peers write null for a field they leave out.
        let present = |field: Option<Value>| field.filter(|value| !value.is_null());
        let rid_sent = present(self.rid);
        let has_rid = rid_sent.is_some();
        let rid = rid_sent.and_then(Rid::new);
        let refuse = |text: &'static str| Refusal { rid: rid.clone(), ..Refusal::new(text) };
        let f = present(self.f).filter(|f| f.as_str() != Some(""));
        let Some(f) = f.filter(|_| read) else {
            return Err(refuse(NO_FUNCTION));
        };
        if has_rid && rid.is_none() {
            return Err(refuse("Invalid message: rid"));
        }
        let forcersp = match present(self.forcersp) {
            None => None,
            Some(Value::Bool(flag)) => Some(flag),
            Some(_) => return Err(refuse("Invalid message: forcersp")),
        };
        let (sec, obf) = (present(self.sec), present(self.obf));
        Ok(Request { f, p: self.p, rid, sec, obf, forcersp, unknown: self.unknown })
    }
}

impl<'de> DeserializeSeed<'de> for &mut Fields {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for &mut Fields {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a FutoIn request")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key()? {
            let field = match key {
                Key::F => &mut self.f,
                Key::P => &mut self.p,
                Key::Rid => &mut self.rid,
                Key::Sec => &mut self.sec,
                Key::Obf => &mut self.obf,
                Key::ForceRsp => &mut self.forcersp,
                Key::Unknown(name) => {
                    self.unknown.push((name, map.next_value()?));
                    continue;
                }
            };
            *field = Some(map.next_value()?);
        }
        Ok(())
    }
}

/// The name of a request field; the known ones are not copied.
enum Key {
    F,
    P,
    Rid,
    Sec,
    Obf,
    ForceRsp,
    Unknown(String),
}

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_identifier(KeyVisitor)
    }
}

struct KeyVisitor;

impl Visitor<'_> for KeyVisitor {
    type Value = Key;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a field name")
    }

    fn visit_str<E>(self, name: &str) -> Result<Key, E> {
        Ok(match name {
            "f" => Key::F,
            "p" => Key::P,
            "rid" => Key::Rid,
            "sec" => Key::Sec,
            "obf" => Key::Obf,
            "forcersp" => Key::ForceRsp,
            other => Key::Unknown(other.to_owned()),
        })
    }
}

/// Whether brackets outside strings are open more than [`MAX_DEPTH`] deep anywhere. It need not
/// know JSON: text that is not JSON is refused by the parser.
fn is_too_deep(bytes: &[u8]) -> bool {
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    for byte in bytes {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'{' | b'[' => {
                depth += 1;
                if depth > MAX_DEPTH {
                    return true;
                }
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use expect_test::expect;
    use serde_json::json;

    use super::*;

    /// What becomes of each message: the request's parts, or the answer that refuses it.
    fn outcomes(messages: &[&str]) -> String {
        let mut out = String::new();
        for message in messages {
            let outcome = match checked(message.as_bytes()) {
                Ok(request) => {
                    let Request { f, rid, sec, obf, forcersp, .. } = request;
                    let rid = rid.map(|rid| rid.0);
                    format!("{f} {rid:?} {sec:?} {obf:?} {forcersp:?}")
                }
                Err(refusal) => written(&refusal.into_response()),
            };
            writeln!(out, "{message}\n    {outcome}").unwrap();
        }
        out
    }

    /// Every check of this module, as for a function without parameters.
    fn checked(bytes: &[u8]) -> Result<Request, Refusal> {
        let mut request = Request::parse(bytes)?;
        request.function_name()?;
        request.take_params(0)?;
        request.check_fields()?;
        Ok(request)
    }

    fn written(response: &Response) -> String {
        let mut out = Vec::new();
        response.write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn requests_are_read() {
        expect![[r#"
            {"f":"a.b:1.0:f","p":{"a":1}}
                "a.b:1.0:f" None None None None
             { "f" : "a.b:1.0:f" } 
                "a.b:1.0:f" None None None None
            {"rid":"C1","f":"a.b:1.0:f","forcersp":true,"sec":{"user":"u"},"obf":{"lid":"x"}}
                "a.b:1.0:f" Some(String("C1")) Some(Object {"user": String("u")}) Some(Object {"lid": String("x")}) Some(true)
            {"f":"a.b:1.0:f","rid":12,"sec":"-hmac:u:MD5:x","forcersp":false}
                "a.b:1.0:f" Some(Number(12)) Some(String("-hmac:u:MD5:x")) None Some(false)
            {"f":"a.b:1.0:f","rid":null,"sec":null,"obf":null,"forcersp":null}
                "a.b:1.0:f" None None None None
            {"f":"x","f":"a.b:1.0:f","rid":"C1","rid":"C2"}
                "a.b:1.0:f" Some(String("C2")) None None None
        "#]].assert_eq(&outcomes(&[
            r#"{"f":"a.b:1.0:f","p":{"a":1}}"#,
            r#" { "f" : "a.b:1.0:f" } "#,
            r#"{"rid":"C1","f":"a.b:1.0:f","forcersp":true,"sec":{"user":"u"},"obf":{"lid":"x"}}"#,
            r#"{"f":"a.b:1.0:f","rid":12,"sec":"-hmac:u:MD5:x","forcersp":false}"#,
            r#"{"f":"a.b:1.0:f","rid":null,"sec":null,"obf":null,"forcersp":null}"#,
            r#"{"f":"x","f":"a.b:1.0:f","rid":"C1","rid":"C2"}"#,
        ]));
    }

    #[test]
    fn what_is_no_request_is_refused() {
        for empty in ["", " ", "\n\t", "\0"] {
            assert_eq!(checked(empty.as_bytes()).unwrap_err().to_string(), NO_FUNCTION);
        }
        expect![[r#"
            null
                {"e":"InvalidRequest","edesc":"Missing req.f"}
            5
                {"e":"InvalidRequest","edesc":"Missing req.f"}
            "x"
                {"e":"InvalidRequest","edesc":"Missing req.f"}
            []
                {"e":"InvalidRequest","edesc":"Missing req.f"}
            {}
                {"e":"InvalidRequest","edesc":"Missing req.f"}
            {
                {"e":"InvalidRequest","edesc":"Missing req.f"}
            {"f"
                {"e":"InvalidRequest","edesc":"Missing req.f"}
            {"p":{}}
                {"e":"InvalidRequest","edesc":"Missing req.f"}
            {"f":null}
                {"e":"InvalidRequest","edesc":"Missing req.f"}
            {"f":"","rid":"C1"}
                {"e":"InvalidRequest","edesc":"Missing req.f","rid":"C1"}
            {"rid":"C1","f":"a.b:1.0:f"
                {"e":"InvalidRequest","edesc":"Missing req.f","rid":"C1"}
            {"rid":"C1","f":"a.b:1.0:f","p":{"n":1e999}}
                {"e":"InvalidRequest","edesc":"Missing req.f","rid":"C1"}
            {"f":"a.b:1.0:f","p":{},"rid":"C1"} x
                {"e":"InvalidRequest","edesc":"Missing req.f","rid":"C1"}
            {"f":"a.b:1.0:f","p":{"a":"\ud800"}}
                {"e":"InvalidRequest","edesc":"Missing req.f"}
        "#]]
        .assert_eq(&outcomes(&[
            "null",
            "5",
            "\"x\"",
            "[]",
            "{}",
            "{",
            "{\"f\"",
            r#"{"p":{}}"#,
            r#"{"f":null}"#,
            r#"{"f":"","rid":"C1"}"#,
            r#"{"rid":"C1","f":"a.b:1.0:f""#,
            r#"{"rid":"C1","f":"a.b:1.0:f","p":{"n":1e999}}"#,
            r#"{"f":"a.b:1.0:f","p":{},"rid":"C1"} x"#,
            r#"{"f":"a.b:1.0:f","p":{"a":"\ud800"}}"#,
        ]));
    }

    #[test]
    fn fields_of_the_wrong_form_are_refused() {
        expect![[r#"
            {"f":5,"rid":"C1"}
                {"e":"InvalidRequest","edesc":"Invalid req.f","rid":"C1"}
            {"f":{}}
                {"e":"InvalidRequest","edesc":"Invalid req.f"}
            {"f":"a.b","rid":1.5}
                {"e":"InvalidRequest","edesc":"Invalid req.f","rid":1.5}
            {"f":"a.b:1.0:f:g"}
                {"e":"InvalidRequest","edesc":"Invalid req.f"}
            {"f":"a.b:1:f","rid":"C1"}
                {"e":"InvalidRequest","edesc":"Invalid req.f (version)","rid":"C1"}
            {"f":"a.b:1.0:f","p":null,"rid":"C1"}
                {"e":"InvalidRequest","edesc":"Invalid message: p","rid":"C1"}
            {"f":"a.b:1.0:f","p":[]}
                {"e":"InvalidRequest","edesc":"Invalid message: p"}
            {"f":"a.b:1.0:f","p":"x"}
                {"e":"InvalidRequest","edesc":"Invalid message: p"}
            {"f":"a.b:1.0:f","zzz":1,"yyy":2,"rid":"C1"}
                {"e":"InvalidRequest","edesc":"Unknown request field: zzz","rid":"C1"}
            {"f":"a.b:1.0:f","rid":true}
                {"e":"InvalidRequest","edesc":"Invalid message: rid"}
            {"f":"a.b:1.0:f","rid":["C1"]}
                {"e":"InvalidRequest","edesc":"Invalid message: rid"}
            {"f":"a.b:1.0:f","rid":{}}
                {"e":"InvalidRequest","edesc":"Invalid message: rid"}
            {"f":"a.b:1.0:f","forcersp":"yes","rid":"C1"}
                {"e":"InvalidRequest","edesc":"Invalid message: forcersp","rid":"C1"}
        "#]]
        .assert_eq(&outcomes(&[
            r#"{"f":5,"rid":"C1"}"#,
            r#"{"f":{}}"#,
            r#"{"f":"a.b","rid":1.5}"#,
            r#"{"f":"a.b:1.0:f:g"}"#,
            r#"{"f":"a.b:1:f","rid":"C1"}"#,
            r#"{"f":"a.b:1.0:f","p":null,"rid":"C1"}"#,
            r#"{"f":"a.b:1.0:f","p":[]}"#,
            r#"{"f":"a.b:1.0:f","p":"x"}"#,
            r#"{"f":"a.b:1.0:f","zzz":1,"yyy":2,"rid":"C1"}"#,
            r#"{"f":"a.b:1.0:f","rid":true}"#,
            r#"{"f":"a.b:1.0:f","rid":["C1"]}"#,
            r#"{"f":"a.b:1.0:f","rid":{}}"#,
            r#"{"f":"a.b:1.0:f","forcersp":"yes","rid":"C1"}"#,
        ]));
    }

    #[test]
    fn parameters_may_be_absent_only_where_none_are_declared() {
        let mut request = Request::parse(br#"{"f":"a.b:1.0:f"}"#).unwrap();
        assert_eq!(request.take_params(1).unwrap_err().to_string(), "Invalid message: p");
        assert_eq!(request.take_params(0).unwrap(), Map::new());
    }

    #[test]
    fn a_request_from_a_url_is_a_request() {
        let request = Request::new("a.b:1.0:f", Map::new()).with_sec(json!("u:p"));
        let message = br#"{"f":"a.b:1.0:f","p":{},"sec":"u:p"}"#;
        assert_eq!(Request::parse(message).unwrap(), request);
    }

    #[test]
    fn nesting_is_bounded_before_anything_is_built() {
        let nested = |depth: usize| {
            let (open, close) = ("[".repeat(depth), "]".repeat(depth));
            format!(r#"{{"f":"a.b:1.0:f","p":{{"a":{open}{close}}}}}"#)
        };
        assert!(Request::parse(nested(MAX_DEPTH - 2).as_bytes()).is_ok());
        for hostile in [
            nested(MAX_DEPTH - 1),
            nested(10_000),
            "[".repeat(1_000_000),
            r#"{"f":"#.repeat(100_000),
            r#"{"zzz":["#.repeat(100_000),
        ] {
            let refusal = Request::parse(hostile.as_bytes()).unwrap_err();
            assert_eq!(refusal.to_string(), "Invalid message: nested too deep");
        }
        let brackets_in_text =
            format!(r#"{{"f":"a.b:1.0:f","p":{{"a":"\"{}"}}}}"#, "[".repeat(100));
        assert!(Request::parse(brackets_in_text.as_bytes()).is_ok());
    }

    #[test]
    fn invalid_utf8_is_refused_wherever_it_is() {
        let valid = br#"{"f":"a.b:1.0:f","p":{"a":"x"},"zzz":"x"}"#;
        for at in 0..valid.len() {
            let mut bytes = valid.to_vec();
            bytes[at] = 0xff;
            assert_eq!(Request::parse(&bytes).unwrap_err().to_string(), NO_FUNCTION);
        }
    }

    #[test]
    fn huge_numbers_are_numbers() {
        let body = br#"{"f":"a.b:1.0:f","p":{"a":123456789012345678901234567890,"b":-1e308}}"#;
        let params = Request::parse(body).unwrap().take_params(2).unwrap();
        assert_eq!(params["a"].as_f64(), Some(1.234_567_890_123_456_8e29));
        assert_eq!(params["b"].as_f64(), Some(-1e308));
    }

    #[test]
    fn a_long_unknown_name_does_not_make_a_long_answer() {
        let body = format!(r#"{{"f":"a.b:1.0:f","{}":1}}"#, "z".repeat(10_000));
        let refusal = checked(body.as_bytes()).unwrap_err();
        assert_eq!(refusal.to_string(), format!("Unknown request field: {}", "z".repeat(64)));
    }

    #[test]
    fn no_cut_or_changed_message_panics() {
        let body = br#"{"rid":"C1","f":"a.b:1.0:f","p":{"a":[1,"\u00e9"]},"sec":"u:p"}"#;
        for at in 0..body.len() {
            drop(checked(&body[..at]));
            for byte in 0..=255 {
                let mut changed = body.to_vec();
                changed[at] = byte;
                drop(checked(&changed));
            }
        }
    }

    #[test]
    fn answers_are_compact_json() {
        let rid = Rid::new(json!("C1"));
        let number = Rid::new(json!(7));
        let answers = [
            Response::success(json!({"n": 1, "s": "é\n\""})),
            Response::success(json!({})).with_rid(rid.as_ref()),
            Response::success(json!(42)).with_rid(number.as_ref()),
            Response::success(json!(null)).with_sec(json!("MAC==")),
            Response::error("MyError", Some("Details \"of\" it")).with_rid(rid.as_ref()),
            Response::error("InternalError", None),
        ];
        let out: String = answers.iter().map(|answer| written(answer) + "\n").collect();
        expect![[r#"
            {"r":{"n":1,"s":"é\n\""}}
            {"r":{},"rid":"C1"}
            {"r":42,"rid":7}
            {"r":null,"sec":"MAC=="}
            {"e":"MyError","edesc":"Details \"of\" it","rid":"C1"}
            {"e":"InternalError"}
        "#]]
        .assert_eq(&out);
        for answer in &answers {
            let mut sent: Map<String, Value> = serde_json::from_str(&written(answer)).unwrap();
            sent.remove("sec");
            assert_eq!(answer.signed_fields(), sent);
        }
    }

    #[test]
    fn a_signature_covers_all_that_was_sent_but_itself() {
        let body = r#"{"f":"a.b:1.0:f","p":{"a":null},"rid":"C1","forcersp":true,"obf":{},"x":1}"#;
        let sent: Map<String, Value> = serde_json::from_str(body).unwrap();
        let signed = format!(r#"{},"sec":"s"}}"#, body.trim_end_matches('}'));
        assert_eq!(Request::parse(body.as_bytes()).unwrap().signed_fields(), sent);
        assert_eq!(Request::parse(signed.as_bytes()).unwrap().signed_fields(), sent);
    }
}
