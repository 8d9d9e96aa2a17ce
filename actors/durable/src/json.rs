//! Parameters and other JSON as values of the journal.

use asyncsteps_journal::{Value, ValueError};
use serde::Serialize;
use serde_json::{Map, Value as Json};

/// Parameters as JSON, which are an object; nothing is one without fields.
pub(crate) fn params(params: &impl Serialize) -> Result<Map<String, Json>, ValueError> {
    let params = serde_json::to_value(params);
    match params.map_err(|error| ValueError::NotWritten(error.to_string()))? {
        Json::Null => Ok(Map::new()),
        Json::Object(params) => Ok(params),
        other @ (Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Array(_)) => {
            Err(ValueError::NotWritten(format!("it is {other}, and not an object")))
        }
    }
}

/// The value of parameters.
pub(crate) fn encode_params(params: &impl Serialize) -> Result<Value, ValueError> {
    Value::encode_json(&Json::Object(self::params(params)?))
}

/// The value of JSON in which a null is read as that of each type that has one, `()` too.
pub(crate) fn encode(json: &Json) -> Result<Value, ValueError> {
    if json.is_null() { Value::encode_result(&()) } else { Value::encode_json(json) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn parameters_are_an_object() {
        assert_eq!(encode_params(&()).unwrap().decode(), Ok(json!({})));
        let params = json!({ "key": null });
        assert_eq!(encode_params(&params).unwrap().decode(), Ok(params));
        let error = encode_params(&7).expect_err("a number");
        assert!(error.to_string().ends_with("it is 7, and not an object"), "{error}");
    }
}
