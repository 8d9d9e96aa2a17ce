//! Requests, and why they are turned away (FTN3 §1.6).

use std::{borrow::Cow, collections::BTreeMap, fmt};

use serde_json::{Map, Value};

use super::{
    Response,
    binary::Item,
    coding::Coding,
    fields::{Fields, Malformed},
    signed::Signed,
};
use crate::iface::{Function, FunctionName, INVALID_REQUEST, NameError, Violation, clipped};

/// The text for anything that is no request at all.
const NO_FUNCTION: &str = "Missing req.f";

/// A request as it came, not yet checked against an interface (FTN3 §1.6).
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    pub(super) coding: Coding,
    pub(super) f: Value,
    pub(super) p: Option<Params>,
    pub(super) rid: Option<Rid>,
    pub(super) sec: Option<Value>,
    pub(super) obf: Option<Value>,
    pub(super) forcersp: Option<bool>,
    pub(super) unknown: Vec<(String, Value)>,
}

impl Request {
    /// Reads one message; its first bytes tell its coding.
    ///
    /// # Errors
    /// "Missing req.f" for anything but a map; "Invalid message: ..." if it is nested more than 64
    /// deep, if `rid` is neither string nor number, or if `forcersp` is not a boolean. The refusal
    /// of a map has its `rid`.
    pub fn parse(bytes: &[u8]) -> Result<Self, Refusal> {
        let coding = Coding::detect(bytes);
        Fields::read(coding, bytes)?.into_request(coding)
    }

    /// A request that came in another form than a message, such as a URL (FTN5).
    #[must_use]
    pub fn new(f: &str, params: Map<String, Value>) -> Self {
        Self {
            coding: Coding::Json,
            f: f.into(),
            p: Some(Params::Json(params.into())),
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

    /// What the message has as the name of its function; empty if that is no text.
    #[must_use]
    pub fn f(&self) -> &str {
        self.f.as_str().unwrap_or_default()
    }

    /// The function called.
    ///
    /// # Errors
    /// "Missing req.f" unless there is a field `f` with text; "Invalid req.f" or "Invalid req.f
    /// (version)" if that is no name.
    pub fn function_name(&self) -> Result<FunctionName, Refusal> {
        let name = self.f.as_str().ok_or_else(|| self.refuse(NO_FUNCTION))?;
        name.parse().map_err(|error| self.refuse(name_refused(error)))
    }

    /// Takes the parameters out, for the check by `Function::check_params`. Byte strings become
    /// base64 text.
    ///
    /// # Errors
    /// "Invalid message: p" if they are no object, or absent although the function has parameters;
    /// "Type mismatch for parameter: ..." for a byte string where the type has none, and for text in a
    /// binary coding where the type is `data`.
    pub fn take_params(
        &mut self,
        called: &FunctionName,
        function: &Function,
    ) -> Result<Map<String, Value>, Refusal> {
        match self.p.take() {
            Some(Params::Json(Value::Object(params))) => Ok(params),
            Some(Params::Binary(Item::Map(items))) => self.typed(items, called, function),
            None if function.params().is_empty() => Ok(Map::new()),
            _ => Err(self.refuse("Invalid message: p")),
        }
    }

    fn typed(
        &self,
        items: BTreeMap<String, Item>,
        called: &FunctionName,
        function: &Function,
    ) -> Result<Map<String, Value>, Refusal> {
        let mut params = Map::new();
        for (name, item) in items {
            let param = function.param(&name);
            let fits = param.is_none_or(|param| item.fits(param.kind()));
            let value = item.into_value();
            if !fits {
                return Err(
                    self.refuse(Violation::parameter_type(called, &name, &value).to_string())
                );
            }
            params.insert(name, value);
        }
        Ok(params)
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
        Refusal { rid: self.rid.clone(), coding: self.coding, ..Refusal::new(text) }
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

    /// The coding it came in, which is the coding of its answer.
    #[must_use]
    pub fn coding(&self) -> Coding {
        self.coding
    }

    /// What a signature covers (FTN8): every field but `sec`, as sent, unknown ones too. To be
    /// called before the parameters are taken.
    #[must_use]
    pub fn signed_fields(&self) -> Signed<'_> {
        let mut signed = Signed::default();
        signed.value("f", &self.f);
        match &self.p {
            Some(Params::Json(value)) => signed.value("p", value),
            Some(Params::Binary(item)) => signed.item("p", item),
            None => {}
        }
        if let Some(rid) = &self.rid {
            signed.value("rid", &rid.0);
        }
        if let Some(obf) = &self.obf {
            signed.value("obf", obf);
        }
        if let Some(forcersp) = self.forcersp {
            signed.flag("forcersp", forcersp);
        }
        for (name, value) in &self.unknown {
            signed.value(name, value);
        }
        signed
    }
}

/// The text for a function's name that is none.
pub(crate) fn name_refused(error: NameError) -> &'static str {
    if error == NameError::Version { "Invalid req.f (version)" } else { "Invalid req.f" }
}

/// Parameters as they came.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Params {
    Json(Value),
    /// It is made a JSON value once the declared types are known.
    Binary(Item),
}

/// A request id: a string as FTN3 §1.3 has it, or a number, which is repeated all the same.
#[derive(Debug, Clone, PartialEq)]
pub struct Rid(pub(super) Value);

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
    coding: Coding,
}

impl Refusal {
    /// Bytes that are no message, so that nothing in them is relied on.
    pub(super) fn malformed(coding: Coding, malformed: Malformed) -> Self {
        let text = match malformed {
            Malformed::Syntax => NO_FUNCTION,
            Malformed::Depth => "Invalid message: nested too deep",
        };
        Self { coding, ..Self::new(text) }
    }

    /// An InvalidRequest with `text`, for a request without id in JSON.
    #[must_use]
    pub fn new(text: impl Into<Cow<'static, str>>) -> Self {
        Self { text: text.into(), rid: None, coding: Coding::Json }
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

    /// The coding the answer is to be sent in.
    #[must_use]
    pub fn coding(&self) -> Coding {
        self.coding
    }

    /// The answer to send.
    #[must_use]
    pub fn into_response(self) -> Response {
        Response::error(INVALID_REQUEST, Some(&self.text)).with_rid(self.rid.as_ref())
    }
}

impl Fields {
    pub(super) fn into_request(self, coding: Coding) -> Result<Request, Refusal> {
        // JSON peers write null for a field they leave out.
        let present = |field: Option<Value>| field.filter(|value| !value.is_null());
        let rid_sent = present(self.rid);
        let has_rid = rid_sent.is_some();
        let rid = rid_sent.and_then(Rid::new);
        let refuse =
            |text: &'static str| Refusal { rid: rid.clone(), coding, ..Refusal::new(text) };
        if has_rid && rid.is_none() {
            return Err(refuse("Invalid message: rid"));
        }
        let forcersp = match present(self.forcersp) {
            None => None,
            Some(Value::Bool(flag)) => Some(flag),
            Some(_) => return Err(refuse("Invalid message: forcersp")),
        };
        let (sec, obf) = (present(self.sec), present(self.obf));
        // that `f` is missing is found when credentials were checked (FTN6 §1.2)
        let f = self.f.unwrap_or_default();
        Ok(Request { coding, f, p: self.p, rid, sec, obf, forcersp, unknown: self.unknown })
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fmt::Write as _,
        sync::{Arc, LazyLock},
    };

    use expect_test::expect;
    use serde_json::json;

    use super::{super::fields::MAX_DEPTH, *};
    use crate::iface::{Definition, Loader, Source};

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
        let called = request.function_name()?;
        request.take_params(&called, function("none"))?;
        request.check_fields()?;
        Ok(request)
    }

    fn written(response: &Response) -> String {
        let mut out = Vec::new();
        response.write(Coding::Json, None, &mut out);
        String::from_utf8(out).unwrap()
    }

    /// A function of a definition made for these tests: `none` has no parameters, `some` has.
    fn function(name: &str) -> &'static Function {
        static DEFINITION: LazyLock<Arc<Definition>> = LazyLock::new(|| {
            let params = json!({"a": "any", "b": "any"});
            let file = json!({"iface": "a.b", "version": "1.0", "ftn3rev": "1.9",
                "funcs": {"none": {}, "some": {"params": params}}});
            let files = [("a.b-1.0-iface.json", file.to_string())];
            Loader::new([Source::texts(files)]).load(&"a.b:1.0".parse().unwrap()).unwrap()
        });
        DEFINITION.function(name).unwrap()
    }

    fn params(body: &[u8], name: &str) -> Result<Map<String, Value>, Refusal> {
        let mut request = Request::parse(body).unwrap();
        let called = request.function_name().unwrap();
        request.take_params(&called, function(name))
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
                {"e":"InvalidRequest","edesc":"Invalid req.f","rid":"C1"}
            {"rid":"C1","f":"a.b:1.0:f"
                {"e":"InvalidRequest","edesc":"Missing req.f"}
            {"rid":"C1","f":"a.b:1.0:f","p":{"n":1e999}}
                {"e":"InvalidRequest","edesc":"Missing req.f"}
            {"f":"a.b:1.0:f","p":{},"rid":"C1"} x
                {"e":"InvalidRequest","edesc":"Missing req.f"}
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
                {"e":"InvalidRequest","edesc":"Missing req.f","rid":"C1"}
            {"f":{}}
                {"e":"InvalidRequest","edesc":"Missing req.f"}
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
        let body = br#"{"f":"a.b:1.0:f"}"#;
        assert_eq!(params(body, "some").unwrap_err().to_string(), "Invalid message: p");
        assert_eq!(params(body, "none").unwrap(), Map::new());
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
        let params = params(body, "some").unwrap();
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
    }
}
