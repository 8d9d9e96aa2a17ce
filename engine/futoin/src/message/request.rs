//! Requests (FTN3 §1.6).

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::binary::BinaryValue;
use super::called::Called;
use super::coding::Coding;
use super::decode::{Fields, Params, read_params};
use super::refused::{NO_FUNCTION, NO_PARAMS, RefusedMessage, invalid, invalid_name};
use super::rid::Rid;
use super::signed::SignedFields;
use crate::iface::{Function, FunctionName, clipped, parameter_type};
use crate::refusal::Refusal;

/// A request as it came, not yet checked against an interface (FTN3 §1.6).
#[derive(Clone, PartialEq, derive_more::Debug)]
// `sec` may be a password, which a log must not have
#[debug("Request {{ f: {f:?}, p: {p:?}, rid: {rid:?}, obf: {obf:?}, .. }}")]
pub struct Request {
    pub(super) coding: Coding,
    pub(super) f: Called,
    pub(super) p: Option<Params>,
    pub(super) rid: Option<Rid>,
    pub(super) sec: Option<Value>,
    pub(super) obf: Option<Value>,
    pub(super) forcersp: Option<bool>,
    pub(super) unknown: Vec<(String, Value)>,
}

impl Request {
    /// Reads one message. Its first bytes say its coding.
    ///
    /// # Errors
    /// "Missing req.f" unless the message is a map; "Invalid message: ..." if it is nested more than 64
    /// deep, if an object in it has a key twice, if no value holds a number in it, if `rid` is neither string nor
    /// number, or if `forcersp` is not a boolean. The refusal of a map has its `rid`.
    pub fn parse(bytes: &[u8]) -> Result<Self, RefusedMessage> {
        let coding = Coding::detect(bytes);
        let fields = Fields::read(coding, bytes);
        Self::from_fields(fields.map_err(|why| RefusedMessage::malformed(coding, why))?, coding)
    }

    /// Reads a message that is a part of another one, such as a call of a burst (FTN10), as
    /// [`parse`](Self::parse) does. The depth of the other one was limited.
    ///
    /// # Errors
    /// As for [`parse`](Self::parse).
    pub fn of_json(message: Value) -> Result<Self, RefusedMessage> {
        let fields = Fields::of_json(message);
        let fields = fields.map_err(|why| RefusedMessage::malformed(Coding::Json, why))?;
        Self::from_fields(fields, Coding::Json)
    }

    /// A request of the fields of a message.
    pub(super) fn from_fields(fields: Fields, coding: Coding) -> Result<Self, RefusedMessage> {
        // JSON peers write null for a field they leave out
        let present = |field: Option<Value>| field.filter(|value| !value.is_null());
        let (sent, mut rid) = (present(fields.rid), None);
        if let Some(sent) = sent {
            rid = Rid::new(sent);
            if rid.is_none() {
                return Err(RefusedMessage::new(invalid("Invalid message: rid"), rid, coding));
            }
        }
        if let Some(flaw) = fields.flaw {
            return Err(RefusedMessage::new(invalid(flaw), rid, coding));
        }
        let forcersp = match present(fields.forcersp) {
            None => None,
            Some(Value::Bool(flag)) => Some(flag),
            Some(_) => {
                return Err(RefusedMessage::new(invalid("Invalid message: forcersp"), rid, coding));
            }
        };
        let (sec, obf) = (present(fields.sec), present(fields.obf));
        // a missing `f` is refused after the credentials are checked (FTN6 §1.2)
        let f = Called::Sent(fields.f.unwrap_or_default());
        let (p, unknown) = (fields.p, fields.unknown);
        Ok(Self { coding, f, p, rid, sec, obf, forcersp, unknown })
    }

    /// A request of a call that came in another form, such as a URL (FTN5).
    #[must_use]
    pub fn new(f: &str, params: Map<String, Value>) -> Self {
        Self::of(Called::Sent(f.into()), params)
    }

    /// The same for a function whose name was looked at before.
    #[must_use]
    pub fn to(function: FunctionName, params: Map<String, Value>) -> Self {
        Self::of(Called::Name(function), params)
    }

    fn of(f: Called, params: Map<String, Value>) -> Self {
        Self {
            coding: Coding::Json,
            f,
            p: Some(Params::Json(params.into())),
            rid: None,
            sec: None,
            obf: None,
            forcersp: None,
            unknown: Vec::new(),
        }
    }

    /// The same with these parameters.
    #[must_use]
    pub fn with_params(self, params: Map<String, Value>) -> Self {
        Self { p: Some(Params::Json(params.into())), ..self }
    }

    /// The same with the parameters of a body, a JSON object, beside those of its URL.
    ///
    /// # Errors
    /// InvalidRequest: "Invalid body: ..." unless it is JSON, "Invalid message: ..." for what [`parse`](Self::parse)
    /// refuses of a message, "Duplicate parameter: ..." for one that the URL has too.
    pub fn with_body(mut self, body: &[u8]) -> Result<Self, Refusal> {
        let Some(Params::Json(Value::Object(params))) = &mut self.p else {
            return Err(invalid(NO_PARAMS));
        };
        for (name, value) in read_params(body)? {
            if params.contains_key(&name) {
                return Err(invalid(format!("Duplicate parameter: {}", clipped(&name))));
            }
            params.insert(name, value);
        }
        Ok(self)
    }

    /// The same with credentials (FTN8).
    #[must_use]
    pub fn with_sec(self, sec: Value) -> Self {
        Self { sec: Some(sec), ..self }
    }

    /// The same on behalf of a user (FTN3 §1.11): a map of `lid`, and of `gid` and `slvl` if they are
    /// known.
    #[must_use]
    pub fn with_obf(self, obf: Value) -> Self {
        Self { obf: Some(obf), ..self }
    }

    /// The same with the wish for an answer even from a function without a result (FTN3 §1.1).
    #[must_use]
    pub fn with_forcersp(self) -> Self {
        Self { forcersp: Some(true), ..self }
    }

    /// The field `f` as sent; empty if it is not text.
    #[must_use]
    pub fn f(&self) -> &str {
        self.f.text().unwrap_or_default()
    }

    /// The function called.
    ///
    /// # Errors
    /// InvalidRequest: "Missing req.f" unless the field `f` is text; "Invalid req.f" or "Invalid req.f
    /// (version)" unless the text is the name of a function.
    pub fn function_name(&self) -> Result<FunctionName, Refusal> {
        match &self.f {
            Called::Name(name) => Ok(name.clone()),
            Called::Sent(_) => {
                let name = self.f.text().ok_or_else(|| invalid(NO_FUNCTION))?;
                name.parse().map_err(invalid_name)
            }
        }
    }

    /// Takes the parameters out, for the check by `Function::check_params`. Byte strings become
    /// base64 text.
    ///
    /// # Errors
    /// InvalidRequest: "Invalid message: p" if they are not an object, or absent although the function
    /// has parameters; "Type mismatch for parameter: ..." for a byte string where the type has none, and
    /// for text in a binary coding where the type is `data`.
    pub fn take_params(
        &mut self,
        called: &FunctionName,
        function: &Function,
    ) -> Result<Map<String, Value>, Refusal> {
        match self.p.take() {
            Some(Params::Json(Value::Object(params))) => Ok(params),
            Some(Params::Binary(BinaryValue::Map(items))) => typed(items, called, function),
            None if function.params().is_empty() => Ok(Map::new()),
            _ => Err(invalid(NO_PARAMS)),
        }
    }

    /// Refuses fields that FTN3 does not know. Call it after the parameters are checked (FTN6 §1).
    ///
    /// # Errors
    /// InvalidRequest: "Unknown request field: ..." with the first of them.
    pub fn check_fields(&self) -> Result<(), Refusal> {
        match self.unknown.first() {
            Some((name, _)) => Err(invalid(format!("Unknown request field: {}", clipped(name)))),
            None => Ok(()),
        }
    }

    /// A refusal of this request: InvalidRequest with `text`, the request's `rid` and its coding.
    #[must_use]
    pub fn refuse(&self, text: impl Into<Cow<'static, str>>) -> RefusedMessage {
        RefusedMessage::new(invalid(text), self.rid.clone(), self.coding)
    }

    /// The id, which the answer must repeat (FTN3 §1.3).
    #[must_use]
    pub fn rid(&self) -> Option<&Rid> {
        self.rid.as_ref()
    }

    /// Credentials or signature, as sent (FTN8).
    #[must_use]
    pub fn sec(&self) -> Option<&Value> {
        self.sec.as_ref()
    }

    /// The user on whose behalf the call is made, as sent (FTN3 §1.11).
    #[must_use]
    pub fn obf(&self) -> Option<&Value> {
        self.obf.as_ref()
    }

    /// Whether the caller wants an answer even from a function without a result (FTN3 §1.1).
    #[must_use]
    pub fn forcersp(&self) -> bool {
        self.forcersp.unwrap_or_default()
    }

    /// The coding of the message, which is the coding of its answer.
    #[must_use]
    pub fn coding(&self) -> Coding {
        self.coding
    }

    /// The fields that a signature covers (FTN8): all but `sec`, as sent, unknown ones too. Call it
    /// before the parameters are taken.
    #[must_use]
    pub fn signed_fields(&self) -> SignedFields<'_> {
        let mut signed = SignedFields::default();
        match &self.f {
            Called::Sent(f) => signed.value("f", f),
            Called::Name(name) => signed.text("f", name.as_str()),
        }
        match &self.p {
            Some(Params::Json(value)) => signed.value("p", value),
            Some(Params::Binary(value)) => signed.binary("p", value),
            None => {}
        }
        if let Some(rid) = &self.rid {
            signed.value("rid", rid.as_value());
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

/// Parameters of a binary coding as JSON values.
fn typed(
    params: BTreeMap<String, BinaryValue>,
    called: &FunctionName,
    function: &Function,
) -> Result<Map<String, Value>, Refusal> {
    let params = params.into_iter().map(|(name, value)| {
        let declared = function.param(&name);
        let fits = declared.is_none_or(|param| value.fits(param.declared_type()));
        let value = value.into_value();
        if fits { Ok((name, value)) } else { Err(parameter_type(called, &name, (&value, ""))) }
    });
    params.collect()
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;
    use std::sync::{Arc, LazyLock};

    use expect_test::expect;
    use serde_json::json;

    use super::super::malformed::MAX_DEPTH;
    use super::super::response::Response;
    use super::*;
    use crate::iface::{Definition, Loader, Source};

    /// The parts of each request, or the answer that refuses it.
    fn outcomes(messages: &[&str]) -> String {
        let mut out = String::new();
        for message in messages {
            let outcome = match checked(message.as_bytes()) {
                Ok(request) => {
                    let name = request.f().to_owned();
                    let Request { rid, sec, obf, forcersp, .. } = request;
                    let rid = rid.map(|rid| rid.as_value().clone());
                    format!("{name:?} {rid:?} {sec:?} {obf:?} {forcersp:?}")
                }
                Err(refusal) => written(&refusal.into_response()),
            };
            writeln!(out, "{message}\n    {outcome}").unwrap();
        }
        out
    }

    /// Every check of this module, as for a function without parameters.
    fn checked(bytes: &[u8]) -> Result<Request, RefusedMessage> {
        let mut request = Request::parse(bytes)?;
        let refused = request.clone();
        let refused = |refusal: Refusal| refused.refuse(refusal.to_string());
        let called = request.function_name().map_err(&refused)?;
        request.take_params(&called, function("none")).map_err(&refused)?;
        request.check_fields().map_err(&refused)?;
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
        "#]].assert_eq(&outcomes(&[
            r#"{"f":"a.b:1.0:f","p":{"a":1}}"#,
            r#" { "f" : "a.b:1.0:f" } "#,
            r#"{"rid":"C1","f":"a.b:1.0:f","forcersp":true,"sec":{"user":"u"},"obf":{"lid":"x"}}"#,
            r#"{"f":"a.b:1.0:f","rid":12,"sec":"-hmac:u:MD5:x","forcersp":false}"#,
            r#"{"f":"a.b:1.0:f","rid":null,"sec":null,"obf":null,"forcersp":null}"#,
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
        let body =
            br#"{"f":"a.b:1.0:f","p":{"a":340282366920938463463374607431768211456,"b":-1e308}}"#;
        let params = params(body, "some").unwrap();
        assert_eq!(params["a"].as_f64(), Some(2f64.powi(128)));
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
