//! The result of a request, from its parts to one value (FTN6 §2.9).

use std::any::Any;
use std::borrow::Cow;

use asyncsteps_core::{Args, Foreign, ForeignArgs};
use serde_json::{Map, Number, Value};

/// The parts of a result that the steps have set so far.
#[derive(Clone, Debug, Default)]
pub(super) struct ResultDraft {
    pub(super) variables: Map<String, Value>,
    pub(super) replaced: Option<Value>,
}

/// The last step returned values of these types, which cannot be a part of the result.
#[derive(Debug)]
pub(super) struct NotMerged(pub(super) Cow<'static, str>);

impl ResultDraft {
    /// The result if the last step returns nothing.
    pub(super) fn so_far(&self) -> Value {
        self.clone().merge(Returned::nothing()).unwrap_or_default()
    }

    /// The result: the variables, then what the last step returned, then what
    /// [`RequestSteps::reply`](super::RequestSteps::reply) set (FTN6 §2.9).
    ///
    /// Maps are merged, and the later one counts. Anything else is a result alone: a value set by
    /// `reply` replaces all, a value of the last step is accepted where there are no variables.
    pub(super) fn merge(self, Returned { values, types }: Returned) -> Result<Value, NotMerged> {
        let Self { mut variables, replaced } = self;
        match values {
            Values::Nothing => {}
            Values::Json(Value::Object(mut map)) => variables.append(&mut map),
            Values::Json(Value::Null) if !variables.is_empty() => {}
            Values::Json(_) | Values::Other if replaced.is_some() => {}
            Values::Json(alone) if variables.is_empty() => return Ok(alone),
            Values::Json(_) | Values::Other => return Err(NotMerged(types)),
        }
        match replaced {
            Some(Value::Object(mut map)) => variables.append(&mut map),
            Some(alone) => return Ok(alone),
            None => {}
        }
        Ok(Value::Object(variables))
    }
}

/// The value that the last step returned.
pub(super) struct Returned {
    values: Values,
    types: Cow<'static, str>,
}

enum Values {
    Nothing,
    Json(Value),
    /// Several values, or one of a type that has no form in JSON.
    Other,
}

impl Returned {
    /// Nothing.
    pub(super) fn nothing() -> Self {
        Self { values: Values::Nothing, types: Cow::default() }
    }

    /// A value of this type.
    pub(super) fn json(value: Value, of: &'static str) -> Self {
        Self { values: Values::Json(value), types: of.into() }
    }
}

impl From<Args> for Returned {
    fn from(args: Args) -> Self {
        if args.is_empty() {
            return Self::nothing();
        }
        let types = args.type_name();
        let values = args.into_typed().map_or(Values::Other, |Foreign(values)| values);
        Self { values, types }
    }
}

impl ForeignArgs for Values {
    fn len(&self) -> usize {
        match self {
            Self::Nothing => 0,
            Self::Json(_) | Self::Other => 1,
        }
    }

    fn give(self, to: &mut dyn FnMut(Box<dyn Any>)) {
        if let Self::Json(value) = self {
            to(Box::new(value));
        }
    }

    fn take(values: &mut dyn Iterator<Item = Box<dyn Any>>) -> Self {
        match (values.next(), values.next()) {
            (None, _) => Self::Nothing,
            (Some(value), None) => json(value).map_or(Self::Other, Self::Json),
            (Some(_), Some(_)) => Self::Other,
        }
    }
}

/// A value of JSON, a number or a text as JSON.
fn json(value: Box<dyn Any>) -> Option<Value> {
    macro_rules! owned {
        ($value:ident: $($type:ty),+) => { $(
            let $value = match $value.downcast::<$type>() {
                Ok(value) => return Some(Value::from(*value)),
                Err(value) => value,
            };
        )+ };
    }
    owned!(value: Value, Map<String, Value>, Vec<Value>, bool, String, &'static str, Cow<'static, str>);
    owned!(value: i8, i16, i32, i64, isize, u8, u16, u32, u64, usize);
    let float = match value.downcast::<f32>() {
        Ok(value) => f64::from(*value),
        Err(value) => *value.downcast::<f64>().ok()?,
    };
    // JSON has no infinity
    Number::from_f64(float).map(Value::Number)
}

#[cfg(test)]
mod tests {
    use asyncsteps_core::Arguments;
    use serde_json::json;

    use super::*;

    struct Order;

    fn map(value: Value) -> Map<String, Value> {
        let Value::Object(map) = value else { panic!("{value} is no map") };
        map
    }

    /// The result of variables, of what the last step returned and of what `reply` set.
    fn merged(
        variables: Value,
        returned: impl Arguments,
        replaced: Option<Value>,
    ) -> Result<Value, String> {
        let draft = ResultDraft { variables: map(variables), replaced };
        draft.merge(returned.into_args().into()).map_err(|NotMerged(types)| types.into_owned())
    }

    #[test]
    fn a_scalar_is_the_result_where_there_are_no_variables() {
        assert_eq!(merged(json!({}), true, None), Ok(json!(true)));
        assert_eq!(merged(json!({}), 7i32, None), Ok(json!(7)));
        assert_eq!(merged(json!({}), (7u8,), None), Ok(json!(7)));
        assert_eq!(merged(json!({}), 0.5f64, None), Ok(json!(0.5)));
        assert_eq!(merged(json!({}), (0.5f32,), None), Ok(json!(0.5)));
        assert_eq!(merged(json!({}), "text", None), Ok(json!("text")));
        assert_eq!(merged(json!({}), String::from("text"), None), Ok(json!("text")));
        assert_eq!(merged(json!({}), (json!([1]),), None), Ok(json!([1])));
        assert_eq!(merged(json!({}), (Value::Null,), None), Ok(Value::Null));
        assert_eq!(merged(json!({}), (), None), Ok(json!({})));
    }

    #[test]
    fn a_map_of_any_kind_is_merged() {
        let returned = map(json!({ "b": 2 }));
        let all = json!({ "a": 1, "b": 2 });
        assert_eq!(merged(json!({ "a": 1 }), (returned,), None), Ok(all.clone()));
        assert_eq!(merged(json!({ "a": 1, "b": 1 }), (json!({ "b": 2 }),), None), Ok(all));
    }

    #[test]
    fn what_cannot_be_merged_is_told() {
        let refused = |result: Result<Value, String>| result.expect_err("it cannot be merged");
        assert_eq!(refused(merged(json!({ "a": 1 }), 7i32, None)), "i32");
        assert!(refused(merged(json!({ "a": 1 }), (json!("b"),), None)).contains("Value"));
        assert!(refused(merged(json!({}), (Order,), None)).contains("Order"));
        assert_eq!(refused(merged(json!({}), (1i32, 2i32), None)), "(i32, i32)");
        assert_eq!(refused(merged(json!({}), f64::NAN, None)), "f64");
        assert_eq!(merged(json!({ "a": 1 }), (Value::Null,), None), Ok(json!({ "a": 1 })));
    }

    #[test]
    fn a_reply_replaces_what_is_no_map() {
        let reply = Some(json!({ "b": 2 }));
        let all = json!({ "a": 1, "b": 2 });
        assert_eq!(merged(json!({ "a": 1 }), 7i32, reply.clone()), Ok(all.clone()));
        assert_eq!(merged(json!({ "a": 1 }), (Order,), reply), Ok(all));
        assert_eq!(merged(json!({ "a": 1 }), 7i32, Some(json!("all"))), Ok(json!("all")));
    }
}
