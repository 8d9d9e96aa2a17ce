//! Compiled functions, and the checks of their parameters and results.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::check::Check;
use super::name::FunctionName;
use super::violation;
use crate::message::read_json;
use crate::refusal::Refusal;

/// One function of a [`Definition`](super::Definition) with its compiled checks.
#[derive(Debug)]
pub struct Function {
    pub(crate) name: Box<str>,
    pub(crate) desc: Option<Box<str>>,
    pub(crate) params: Box<[Parameter]>,
    pub(crate) result: ResultCheck,
    /// As the definition writes it.
    pub(crate) result_type: Option<Value>,
    pub(crate) throws: Box<[Box<str>]>,
    pub(crate) heavy: bool,
    pub(crate) seclvl: Option<Box<str>>,
    pub(crate) rawupload: bool,
    pub(crate) maxreqsize: usize,
    pub(crate) maxrspsize: usize,
}

/// The result of a function with its checkers.
#[derive(Debug)]
pub(crate) enum ResultCheck {
    Nothing,
    Raw,
    Whole(Arc<Check>),
    Variables(Box<[Parameter]>),
}

impl Function {
    /// The function's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The parameters in their order.
    #[must_use]
    pub fn params(&self) -> &[Parameter] {
        &self.params
    }

    /// The parameter of this name.
    #[must_use]
    pub fn param(&self, name: &str) -> Option<&Parameter> {
        self.params.iter().find(|param| &*param.name == name)
    }

    /// The result as its definition writes it: a type, or an object with the types of variables;
    /// `None` for no result or a raw one (FTN3 §1.1, §1.8.5).
    #[must_use]
    pub fn result_type(&self) -> Option<&Value> {
        self.result_type.as_ref()
    }

    /// The errors the interface declares (FTN3 §1.9).
    pub fn errors(&self) -> impl Iterator<Item = &str> {
        self.throws.iter().map(AsRef::as_ref)
    }

    /// Whether `code` is an error the interface declares (FTN3 §1.9).
    #[must_use]
    pub fn throws(&self, code: &str) -> bool {
        self.throws.iter().any(|declared| &**declared == code)
    }

    /// Whether requests count as heavy (FTN3 §2.8).
    #[must_use]
    pub fn heavy(&self) -> bool {
        self.heavy
    }

    /// The least security level of the caller, if one is set (FTN3 §1.12).
    #[must_use]
    pub fn seclvl(&self) -> Option<&str> {
        self.seclvl.as_deref()
    }

    /// Whether a request may come with raw data (FTN3 §1.1).
    #[must_use]
    pub fn rawupload(&self) -> bool {
        self.rawupload
    }

    /// Whether the answer is raw data instead of a message (FTN3 §1.1).
    #[must_use]
    pub fn rawresult(&self) -> bool {
        matches!(self.result, ResultCheck::Raw)
    }

    /// Whether a success is answered even without `forcersp` (FTN3 §1.1); also true for raw
    /// results.
    #[must_use]
    pub fn has_result(&self) -> bool {
        !matches!(self.result, ResultCheck::Nothing)
    }

    /// Largest request message in bytes; 65536 unless declared (FTN3 §1.10).
    #[must_use]
    pub fn max_request_size(&self) -> usize {
        self.maxreqsize
    }

    /// Largest response message in bytes; 65536 unless declared (FTN3 §1.10).
    #[must_use]
    pub fn max_response_size(&self) -> usize {
        self.maxrspsize
    }

    /// Checks the parameters of a call and completes them: first for unknown names, then each declared
    /// parameter in order. An absent parameter or null takes its default; absent optional fields of maps
    /// become null; integers written as `1.0` become integers (FTN3 §1.8).
    ///
    /// `called` is the function's name as the caller wrote it, for the text of a refusal.
    ///
    /// # Errors
    /// InvalidRequest for the first parameter that breaks the definition; parameters before it stay
    /// completed.
    pub fn check_params(
        &self,
        called: &FunctionName,
        params: &mut Map<String, Value>,
    ) -> Result<(), Refusal> {
        let sent = params.len();
        let declared = self.check_declared_params(called, params);
        if matches!(declared, Ok(count) if count == sent) {
            return Ok(());
        }
        match first_unknown(&self.params, params) {
            Some(name) => Err(violation::unknown_parameter(called, name)),
            None => declared.map(drop),
        }
    }

    /// Returns how many of the declared parameters were sent.
    fn check_declared_params(
        &self,
        called: &FunctionName,
        params: &mut Map<String, Value>,
    ) -> Result<usize, Refusal> {
        let mut sent = self.params.len();
        for param in &self.params {
            match (params.get_mut(&*param.name), &param.default) {
                (Some(Value::Null), Some(Value::Null)) => {}
                (Some(value @ Value::Null), Some(default)) => *value = default.clone(),
                (Some(value), _) => {
                    if !param.check.admit(value) {
                        let at = param.check.refused_at(value);
                        let mistake = (&*value, &*at);
                        return Err(violation::parameter_type(called, &param.name, mistake));
                    }
                }
                (None, Some(default)) => {
                    sent -= 1;
                    params.insert(param.name.as_ref().to_owned(), default.clone());
                }
                (None, None) => return Err(violation::missing_parameter(called, &param.name)),
            }
        }
        Ok(sent)
    }

    /// Checks the result of a handler in the order of [`check_params`](Self::check_params), and brings
    /// it into its normal form. A function without a result accepts null and an empty map.
    ///
    /// # Errors
    /// InternalError for the first variable that breaks the definition. A function with a raw result
    /// refuses every result.
    pub fn check_result(&self, result: &mut Value) -> Result<(), Refusal> {
        match &self.result {
            ResultCheck::Raw => Err(violation::raw_result(&self.name)),
            ResultCheck::Nothing => {
                let is_nothing = result.is_null() || result.as_object().is_some_and(Map::is_empty);
                if is_nothing { Ok(()) } else { Err(violation::unexpected_result(&self.name)) }
            }
            ResultCheck::Whole(check) => {
                if check.admit(result) {
                    Ok(())
                } else {
                    let at = check.refused_at(result);
                    Err(violation::whole_result_type(&self.name, (result, &at)))
                }
            }
            ResultCheck::Variables(variables) => self.check_variables(variables, result),
        }
    }

    fn check_variables(&self, variables: &[Parameter], result: &mut Value) -> Result<(), Refusal> {
        let map = result.as_object_mut().ok_or_else(violation::result_not_map)?;
        let declared = self.check_declared_variables(variables, map);
        if declared.is_ok() && map.len() == variables.len() {
            return Ok(());
        }
        match first_unknown(variables, map) {
            Some(name) => Err(violation::unknown_result(&self.name, name)),
            None => declared,
        }
    }

    fn check_declared_variables(
        &self,
        variables: &[Parameter],
        map: &mut Map<String, Value>,
    ) -> Result<(), Refusal> {
        for variable in variables {
            let Some(value) = map.get_mut(&*variable.name) else {
                return Err(violation::missing_result(&self.name, &variable.name));
            };
            if !variable.check.admit(value) {
                let at = variable.check.refused_at(value);
                return Err(violation::result_type(&self.name, &variable.name, (value, &at)));
            }
        }
        Ok(())
    }
}

/// The first name in `map` that is not declared. Most messages need no such search: it is for
/// messages with an unknown name or another mistake.
fn first_unknown<'a>(declared: &[Parameter], map: &'a Map<String, Value>) -> Option<&'a str> {
    let is_declared = |name: &str| declared.iter().any(|param| &*param.name == name);
    map.keys().map(String::as_str).find(|name| !is_declared(name))
}

/// A parameter of a [`Function`].
#[derive(Debug)]
pub struct Parameter {
    pub(crate) name: Box<str>,
    /// As the definition writes it.
    pub(crate) type_name: Value,
    pub(crate) check: Arc<Check>,
    pub(crate) default: Option<Value>,
    pub(crate) desc: Option<Box<str>>,
}

impl Parameter {
    /// The parameter's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The parameter's type as its definition writes it: a name, or a list of names (FTN3 §1.8.4).
    #[must_use]
    pub fn type_name(&self) -> &Value {
        &self.type_name
    }

    /// The default of an absent parameter or null; `None` if the parameter is required.
    #[must_use]
    pub fn default(&self) -> Option<&Value> {
        self.default.as_ref()
    }

    /// Whether `value` is of the parameter's type, without the rules for null and defaults.
    #[must_use]
    pub fn accepts(&self, value: &Value) -> bool {
        self.check.accepts(value)
    }

    /// Reads a value in a URL (FTN5): the text itself where the type accepts a string, otherwise its
    /// JSON. Text that is neither, or whose JSON no value holds, stays text, which the check refuses later.
    #[must_use]
    pub fn read_text(&self, text: String) -> Value {
        let value = Value::String(text);
        if self.accepts(&value) {
            return value;
        }
        let json = value.as_str().and_then(read_json);
        json.unwrap_or(value)
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::json;

    use super::super::definition::Definition;
    use super::super::fixture::{answer, call, load_texts};
    use super::super::name::Version;
    use super::*;

    fn sample() -> Arc<Definition> {
        let text = r#"{
            "iface": "a.b", "version": "1.0", "ftn3rev": "1.9",
            "types": {
                "Pair": {
                    "type": "map",
                    "fields": { "k": "string", "v": { "type": "any", "optional": true } }
                }
            },
            "funcs": {
                "echo": {
                    "params": {
                        "msg": "string",
                        "n": { "type": "integer", "default": 1 },
                        "opt": { "type": "string", "default": null },
                        "alpha": { "type": "Pair", "default": { "k": "x" } }
                    },
                    "result": { "z": "integer", "a": "any" },
                    "throws": [ "MyError" ]
                },
                "whole": { "result": "Pair", "heavy": true, "seclvl": "SafeOps" },
                "silent": { "maxreqsize": "2K", "maxrspsize": "100B" },
                "raw": { "rawresult": true, "rawupload": true, "throws": [ "E" ] }
            },
            "requires": [ "AllowAnonymous", "Custom1" ]
        }"#;
        load_texts([("a.b:1.0".to_owned(), text.to_owned())]).unwrap()
    }

    #[test]
    fn parameters_are_checked_in_order_and_completed() {
        let definition = sample();
        let mut out = String::new();
        for params in [
            json!({"msg": "hi"}),
            json!({"msg": "hi", "n": null, "opt": null, "alpha": null}),
            json!({"msg": "hi", "n": 2.0, "opt": "o", "alpha": {"k": "", "v": 1}}),
            json!({}),
            json!({"msg": null}),
            json!({"n": "text", "zzz": 1}),
            json!({"n": "text"}),
            json!({"msg": "hi", "n": "text", "alpha": 5}),
            json!({"msg": "hi", "n": 1.5, "alpha": 5}),
            json!({"msg": "hi", "opt": 5}),
            json!({"msg": "hi", "alpha": {"v": 1}}),
            json!({"msg": "hi", "alpha": {"k": 5}}),
            json!({"m".repeat(10_000): 1}),
            json!({"msg": ["x".repeat(10_000)]}),
        ] {
            out += &call(&definition, "a.b:1.0:echo", params);
            out.push('\n');
        }
        expect![[r#"
            {"alpha":{"k":"x","v":null},"msg":"hi","n":1,"opt":null}
            {"alpha":{"k":"x","v":null},"msg":"hi","n":1,"opt":null}
            {"alpha":{"k":"","v":1},"msg":"hi","n":2,"opt":"o"}
            InvalidRequest: Missing parameter: a.b:1.0:echo(msg)
            InvalidRequest: Type mismatch for parameter: a.b:1.0:echo(msg) = "null"
            InvalidRequest: Unknown parameter: a.b:1.0:echo(zzz)
            InvalidRequest: Missing parameter: a.b:1.0:echo(msg)
            InvalidRequest: Type mismatch for parameter: a.b:1.0:echo(n) = "text"
            InvalidRequest: Type mismatch for parameter: a.b:1.0:echo(n) = "1.5"
            InvalidRequest: Type mismatch for parameter: a.b:1.0:echo(opt) = "5"
            InvalidRequest: Type mismatch for parameter: a.b:1.0:echo(alpha) = "{"v":1}" at /k
            InvalidRequest: Type mismatch for parameter: a.b:1.0:echo(alpha) = "{"k":5}" at /k
            InvalidRequest: Unknown parameter: a.b:1.0:echo(mmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmm)
            InvalidRequest: Type mismatch for parameter: a.b:1.0:echo(msg) = "["xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx..."
        "#]].assert_eq(&out);
    }

    #[test]
    fn results_are_checked_in_the_same_way() {
        let definition = sample();
        let mut out = String::new();
        for (function, result) in [
            ("echo", json!({"z": 1.0, "a": null})),
            ("echo", json!({})),
            ("echo", json!({"a": 1, "z": "text"})),
            ("echo", json!({"b": 1, "z": 1})),
            ("echo", json!(null)),
            ("echo", json!([1])),
            ("whole", json!({"k": "x"})),
            ("whole", json!({"v": 1})),
            ("whole", json!(null)),
            ("silent", json!(null)),
            ("silent", json!({})),
            ("silent", json!({"a": 1})),
            ("silent", json!(0)),
            ("raw", json!({})),
        ] {
            out += &answer(&definition, function, result);
            out.push('\n');
        }
        expect![[r#"
            {"a":null,"z":1}
            InternalError: Missing result variable: echo(z)
            InternalError: Type mismatch for result variable: echo(z) = "text"
            InternalError: Unknown result variable: echo(b)
            InternalError: Invalid message: r
            InternalError: Invalid message: r
            {"k":"x","v":null}
            InternalError: Result type mismatch: whole() = "{"v":1}" at /k
            InternalError: Result type mismatch: whole() = "null"
            null
            {}
            InternalError: No result variables are expected: silent()
            InternalError: No result variables are expected: silent()
            InternalError: Raw result is expected: raw()
        "#]]
        .assert_eq(&out);
    }

    #[test]
    fn the_name_in_a_text_is_the_one_called() {
        let text = call(&sample(), "base.iface:1.7:echo", json!({}));
        assert_eq!(text, "InvalidRequest: Missing parameter: base.iface:1.7:echo(msg)");
    }

    #[test]
    fn a_definition_says_what_an_executor_must_know() {
        let definition = sample();
        assert_eq!(definition.id().to_string(), "a.b:1.0");
        assert_eq!((definition.iface(), definition.version()), ("a.b", Version::new(1, 0)));
        let names: Vec<&str> = definition.functions().map(|function| function.name()).collect();
        assert_eq!(names, ["echo", "raw", "silent", "whole"]);
        assert!(definition.requires("Custom1") && !definition.requires("SecureChannel"));
        assert_eq!(definition.constraints().collect::<Vec<_>>(), ["AllowAnonymous", "Custom1"]);
        assert!(definition.inherits().is_empty() && definition.function("none").is_none());

        let [echo, raw, silent, whole] =
            ["echo", "raw", "silent", "whole"].map(|name| definition.function(name).unwrap());
        assert!(echo.throws("MyError") && !echo.throws("Other") && !echo.heavy());
        assert_eq!((echo.max_request_size(), echo.max_response_size()), (65_536, 65_536));
        assert_eq!((silent.max_request_size(), silent.max_response_size()), (2048, 100));
        assert_eq!((whole.seclvl(), whole.heavy()), (Some("SafeOps"), true));
        assert!(raw.rawresult() && raw.rawupload() && raw.has_result());
        assert!(whole.has_result() && !silent.has_result() && !echo.rawupload());
        let names: Vec<&str> = echo.params().iter().map(Parameter::name).collect();
        assert_eq!(names, ["msg", "n", "opt", "alpha"], "the order of the file");
        let default = echo.param("alpha").unwrap().default();
        assert_eq!(default, Some(&json!({"k": "x", "v": null})), "defaults are complete");
    }

    #[test]
    fn url_values_are_text_unless_the_type_wants_json() {
        let definition = sample();
        let echo = definition.function("echo").unwrap();
        for (name, text, value) in [
            ("msg", "12", json!("12")),
            ("opt", "null", json!("null")),
            ("n", "12", json!(12)),
            ("n", "twelve", json!("twelve")),
            ("n", "", json!("")),
            ("alpha", "{\"k\":\"x\"}", json!({"k": "x"})),
        ] {
            assert_eq!(echo.param(name).unwrap().read_text(text.to_owned()), value, "{text}");
        }
        let deep = "[".repeat(100_000);
        assert_eq!(echo.param("n").unwrap().read_text(deep.clone()), json!(deep));
    }
}
