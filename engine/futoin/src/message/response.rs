//! Answers (FTN3 §1.7).

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use super::binary::{self, Sink};
use super::coding::Coding;
use super::encode::{self, Encode};
use super::rid::Rid;
use super::signed::SignedFields;
use crate::iface::Function;

/// An answer (FTN3 §1.7): a result or an error, never both.
#[derive(Debug, Clone, PartialEq)]
pub struct Response {
    body: ResponseBody,
    rid: Option<Rid>,
    sec: Option<Value>,
}

#[derive(Debug, Clone, PartialEq)]
enum ResponseBody {
    Result(Value),
    Error(ErrorResult),
}

/// The error of an answer: fields `e` and `edesc` (FTN3 §1.7).
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "FTN3 has these two fields")]
pub struct ErrorResult {
    /// The error code.
    pub code: String,
    /// The description, if there is one.
    pub description: Option<String>,
}

impl Response {
    /// A success with the result `r`: a map of variables, or the value itself for a function whose
    /// result is a type.
    #[must_use]
    pub fn success(result: Value) -> Self {
        Self { body: ResponseBody::Result(result), rid: None, sec: None }
    }

    /// A failure with the code `e` and, if there is one, the description `edesc`.
    #[must_use]
    pub fn error(code: &str, description: Option<&str>) -> Self {
        let (code, description) = (code.to_owned(), description.map(ToOwned::to_owned));
        Self { body: ResponseBody::Error(ErrorResult { code, description }), rid: None, sec: None }
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

    /// The signature, as sent (FTN8).
    #[must_use]
    pub fn sec(&self) -> Option<&Value> {
        self.sec.as_ref()
    }

    /// The result; `None` for a failure.
    #[must_use]
    pub fn result(&self) -> Option<&Value> {
        match &self.body {
            ResponseBody::Result(result) => Some(result),
            ResponseBody::Error(_) => None,
        }
    }

    /// The error code; `None` for a success.
    #[must_use]
    pub fn code(&self) -> Option<&str> {
        match &self.body {
            ResponseBody::Result(_) => None,
            ResponseBody::Error(error) => Some(&error.code),
        }
    }

    /// The result.
    ///
    /// # Errors
    /// Code and description of a failure.
    pub fn into_result(self) -> Result<Value, ErrorResult> {
        match self.body {
            ResponseBody::Result(result) => Ok(result),
            ResponseBody::Error(error) => Err(error),
        }
    }

    /// The answer as a part of another message, such as that to a burst (FTN10).
    #[must_use]
    pub fn into_json(self) -> Value {
        let Self { body, rid, sec } = self;
        let mut message = Map::new();
        match body {
            ResponseBody::Result(result) => _ = message.insert("r".to_owned(), result),
            ResponseBody::Error(ErrorResult { code, description }) => {
                message.insert("e".to_owned(), code.into());
                message.extend(description.map(|text| ("edesc".to_owned(), text.into())));
            }
        }
        message.extend(rid.map(|rid| ("rid".to_owned(), rid.as_value().clone())));
        message.extend(sec.map(|sec| ("sec".to_owned(), sec)));
        message.into()
    }

    /// The fields that a signature covers (FTN8): all but `sec`, as they will be written in `coding`.
    /// `function` is the function that answers, if it is known.
    #[must_use]
    pub fn signed_fields<'a>(
        &'a self,
        coding: Coding,
        function: Option<&'a Function>,
    ) -> SignedFields<'a> {
        let mut signed = SignedFields::default();
        match &self.body {
            ResponseBody::Result(result) => {
                let kinds = function.filter(|_| coding != Coding::Json);
                signed.result("r", result, kinds);
            }
            ResponseBody::Error(ErrorResult { code, description }) => {
                signed.text("e", code);
                if let Some(description) = description {
                    signed.text("edesc", description);
                }
            }
        }
        if let Some(rid) = &self.rid {
            signed.value("rid", rid.as_value());
        }
        signed
    }

    /// Appends the answer to `out`. The binary codings write byte strings where `function`, the function
    /// that answers, declares `data` in its result.
    pub fn write(&self, coding: Coding, function: Option<&Function>, out: &mut Vec<u8>) {
        encode::write(self, coding, function, out);
    }
}

impl Encode for Response {
    fn encode(&self, sink: &mut impl Sink, function: Option<&Function>) {
        let extra = usize::from(self.rid.is_some()) + usize::from(self.sec.is_some());
        match &self.body {
            ResponseBody::Result(result) => {
                sink.map(1 + extra);
                sink.text("r");
                binary::write_result(sink, result, function);
            }
            ResponseBody::Error(ErrorResult { code, description }) => {
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
            ResponseBody::Result(result) => map.serialize_entry("r", result)?,
            ResponseBody::Error(ErrorResult { code, description }) => {
                map.serialize_entry("e", code)?;
                if let Some(description) = description {
                    map.serialize_entry("edesc", description)?;
                }
            }
        }
        if let Some(rid) = &self.rid {
            map.serialize_entry("rid", rid.as_value())?;
        }
        if let Some(sec) = &self.sec {
            map.serialize_entry("sec", sec)?;
        }
        map.end()
    }
}
