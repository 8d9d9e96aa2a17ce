//! Properties of all codings.

use std::sync::Arc;

use expect_test::expect;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::binary::{Sink, cbor, msgpack, write};
use super::{Coding, Data, Request, Response, SignedFields};
use crate::iface::{Definition, Loader, Source};
use crate::refusal::Refusal;

const BINARY: [Coding; 2] = [Coding::MsgPack, Coding::Cbor];

fn definition() -> Arc<Definition> {
    let file = json!({
        "iface": "a.b", "version": "1.0", "ftn3rev": "1.9",
        "types": {
            "Blob": {"type": "data", "maxlen": 4},
            "Blobs": {"type": "array", "elemtype": "Blob"},
            "Either": ["integer", "Blobs"],
            "Box": {"type": "map", "fields": {"inner": "Blob", "name": "string"}},
            "Named": {"type": "map", "elemtype": "Blob"},
        },
        "funcs": {
            "f": {
                "params": {
                    "blob": {"type": "Blob", "default": null},
                    "either": {"type": "Either", "default": null},
                    "box": {"type": "Box", "default": null},
                    "named": {"type": "Named", "default": null},
                    "any": {"type": "any", "default": null},
                    "text": {"type": "string", "default": null},
                },
                "result": {"blob": "Blob", "either": "Either", "box": "Box", "text": "string"},
            },
            "whole": {"result": "Named"},
        },
    });
    let files = [("a.b-1.0-iface.json", file.to_string())];
    Loader::new([Source::texts(files)]).load(&"a.b:1.0".parse().unwrap()).unwrap()
}

/// A message in a binary coding, written as JSON; `{"byte string": [1, 2]}` is a byte string.
fn coded(coding: Coding, message: &Value) -> Vec<u8> {
    fn put(sink: &mut impl Sink, value: &Value) {
        if let Some(bytes) = value.get("byte string") {
            sink.bytes(&serde_json::from_value::<Vec<u8>>(bytes.clone()).unwrap());
        } else if let Some(items) = value.as_array() {
            sink.list(items.len());
            items.iter().for_each(|item| put(sink, item));
        } else if let Some(map) = value.as_object() {
            sink.map(map.len());
            for (name, item) in map {
                sink.text(name);
                put(sink, item);
            }
        } else {
            write(sink, value, None);
        }
    }
    let mut out = Vec::new();
    match coding {
        Coding::MsgPack => {
            out.extend_from_slice(b"MPCK");
            put(&mut msgpack::MsgpackWriter(&mut out), message);
        }
        Coding::Cbor => {
            out.extend_from_slice(b"CBOR");
            put(&mut cbor::CborWriter(&mut out), message);
        }
        Coding::Json => out.extend_from_slice(message.to_string().as_bytes()),
    }
    out
}

/// The parameters that a handler of `f` would see.
fn checked(bytes: &[u8]) -> Result<Map<String, Value>, String> {
    let definition = definition();
    let refused = |refusal: Refusal| refusal.to_string();
    let mut request = Request::parse(bytes).map_err(|refused| refused.to_string())?;
    let called = request.function_name().map_err(refused)?;
    let function = definition.function(called.func()).unwrap();
    let mut params = request.take_params(&called, function).map_err(refused)?;
    function.check_params(&called, &mut params).map_err(refused)?;
    request.check_fields().map_err(refused)?;
    Ok(params.into_iter().filter(|(_, value)| !value.is_null()).collect())
}

fn call(params: &Value) -> Value {
    json!({"f": "a.b:1.0:f", "p": params, "rid": "C1"})
}

#[test]
fn data_is_base64_text_to_all_who_see_values() {
    let params = json!({
        "blob": {"byte string": [1, 2, 3]}, "either": [{"byte string": []}, {"byte string": [255]}], "any": {"x": {"byte string": [0]}},
        "box": {"inner": {"byte string": [9]}, "name": "n"}, "named": {"a": {"byte string": [7]}}, "text": "t",
    });
    let seen = json!({
        "blob": "AQID", "either": ["", "/w=="], "any": {"x": "AA=="},
        "box": {"inner": "CQ==", "name": "n"}, "named": {"a": "Bw=="}, "text": "t",
    });
    for coding in BINARY {
        let request = coded(coding, &call(&params));
        assert_eq!(checked(&request).map(Value::Object), Ok(seen.clone()), "{coding:?}");
    }
    assert_eq!(checked(&coded(Coding::Json, &call(&seen))).map(Value::Object), Ok(seen));
}

#[test]
fn text_in_a_binary_coding_is_no_data() {
    for coding in BINARY {
        let mut out = String::new();
        for params in [
            json!({"blob": "AQID"}),
            json!({"either": ["AQID"]}),
            json!({"box": {"inner": "AQID", "name": "AQID"}}),
            json!({"named": {"a": {"byte string": []}, "b": "AQID"}}),
        ] {
            out += &checked(&coded(coding, &call(&params))).unwrap_err();
            out.push('\n');
        }
        expect![[r#"
            Type mismatch for parameter: a.b:1.0:f(blob) = "AQID"
            Type mismatch for parameter: a.b:1.0:f(either) = "["AQID"]"
            Type mismatch for parameter: a.b:1.0:f(box) = "{"inner":"AQID","name":"AQID"}"
            Type mismatch for parameter: a.b:1.0:f(named) = "{"a":"","b":"AQID"}"
        "#]]
        .assert_eq(&out);
        let any = json!({"any": "AQID", "text": "AQID"});
        assert_eq!(checked(&coded(coding, &call(&any))).map(Value::Object), Ok(any));
    }
}

#[test]
fn bytes_are_refused_where_no_type_has_them() {
    for coding in BINARY {
        let mut out = String::new();
        for params in [
            json!({"text": {"byte string": [1, 2, 3]}}),
            json!({"either": {"byte string": [1, 2, 3]}}),
            json!({"box": {"inner": {"byte string": []}, "name": {"byte string": [1]}}}),
            json!({"named": {"byte string": [1]}}),
            json!({"blob": {"byte string": [1, 2, 3, 4, 5]}}),
            json!({"blob": 5}),
            json!({"zzz": {"byte string": [1]}}),
        ] {
            out += &checked(&coded(coding, &call(&params))).unwrap_err();
            out.push('\n');
        }
        expect![[r#"
            Type mismatch for parameter: a.b:1.0:f(text) = "AQID"
            Type mismatch for parameter: a.b:1.0:f(either) = "AQID"
            Type mismatch for parameter: a.b:1.0:f(box) = "{"inner":"","name":"AQ=="}"
            Type mismatch for parameter: a.b:1.0:f(named) = "AQ=="
            Type mismatch for parameter: a.b:1.0:f(blob) = "AQIDBAU="
            Type mismatch for parameter: a.b:1.0:f(blob) = "5"
            Unknown parameter: a.b:1.0:f(zzz)
        "#]]
        .assert_eq(&out);
    }
}

#[test]
fn answers_have_bytes_where_data_is_declared() {
    let definition = definition();
    let result = json!({
        "blob": "AQID", "either": ["", "/w=="], "box": {"inner": "CQ==", "name": "CQ=="},
        "text": "AQID",
    });
    let sent = json!({
        "blob": {"byte string": [1, 2, 3]}, "either": [{"byte string": []}, {"byte string": [255]}],
        "box": {"inner": {"byte string": [9]}, "name": "CQ=="}, "text": "AQID",
    });
    for (name, result, sent) in
        [("f", result, sent), ("whole", json!({"a": "Bw=="}), json!({"a": {"byte string": [7]}}))]
    {
        let function = definition.function(name);
        let answer = Response::success(result).with_sec(json!("MAC"));
        for coding in BINARY {
            let mut out = Vec::new();
            answer.write(coding, function, &mut out);
            let expected = coded(coding, &json!({"r": sent, "sec": "MAC"}));
            assert_eq!(out, expected, "{name} {coding:?}");
        }
    }
}

#[test]
fn signatures_run_over_raw_bytes_in_binary_codings() {
    let definition = definition();
    let base = |signed: SignedFields<'_>| signed.base();
    let params = json!({"blob": {"byte string": [1, 255]}, "text": "AQID", "any": [{"byte string": [0]}, 1.5]});
    for coding in BINARY {
        let request = Request::parse(&coded(coding, &call(&params))).unwrap();
        let expected = b"f:a.b:1.0:f;p:any:0:\x00;1:1.5;;blob:\x01\xff;text:AQID;;rid:C1;";
        assert_eq!(base(request.signed_fields()), expected);

        let answer = Response::success(json!({"blob": "Af8=", "text": "Af8="}));
        let expected = b"r:blob:\x01\xff;text:Af8=;;";
        assert_eq!(base(answer.signed_fields(coding, definition.function("f"))), expected);
        let answer = Response::success(json!({"k": "Af8="}));
        let expected = b"r:k:\x01\xff;;";
        assert_eq!(base(answer.signed_fields(coding, definition.function("whole"))), expected);
        assert_eq!(base(answer.signed_fields(Coding::Json, None)), b"r:k:Af8=;;");
    }
}

fn refused(bytes: &[u8]) -> String {
    let request = match Request::parse(bytes) {
        Ok(request) => request,
        Err(refused) => {
            assert_eq!(refused.coding(), Coding::detect(bytes));
            return refused.to_string();
        }
    };
    assert_eq!(request.coding(), Coding::detect(bytes));
    request.function_name().unwrap_err().to_string()
}

#[test]
fn hostile_messagepack_is_refused() {
    let nested = |byte: u8, count: usize| [&b"MPCK\x81\xa1f"[..], &vec![byte; count]].concat();
    for (why, bytes) in [
        ("nothing", &b"MPCK"[..]),
        ("no map", b"MPCK\xc0"),
        ("a list", b"MPCK\x90"),
        ("an empty map", b"MPCK\x80"),
        ("cut", b"MPCK\x81\xa1f\xa5a.b"),
        ("trailing bytes", b"MPCK\x81\xa1f\xa1a\xc0"),
        ("a key that is no text", b"MPCK\x82\xa1f\xa1a\x01\x02"),
        ("a key of bytes", b"MPCK\x82\xa1f\xa1a\xc4\x01p\x02"),
        ("text that is not UTF-8", b"MPCK\x82\xa1f\xa1a\xa1p\xa1\xff"),
        ("NaN", b"MPCK\x82\xa1f\xa1a\xa1p\xcb\x7f\xf8\0\0\0\0\0\0"),
        ("infinity", b"MPCK\x82\xa1f\xa1a\xa1p\xca\x7f\x80\0\0"),
        ("an extension", b"MPCK\x82\xa1f\xa1a\xa1p\xd4\x01\x01"),
        ("a reserved byte", b"MPCK\x82\xa1f\xa1a\xa1p\xc1"),
        ("a text longer than the message", b"MPCK\x82\xa1f\xa1a\xa1p\xdb\xff\xff\xff\xff"),
        ("bytes longer than the message", b"MPCK\x82\xa1f\xa1a\xa1p\xc6\xff\xff\xff\xff"),
        ("a list longer than the message", b"MPCK\x82\xa1f\xa1a\xa1p\xdd\xff\xff\xff\xff"),
        ("a map longer than the message", b"MPCK\xdf\xff\xff\xff\xff\xa1f\xa1a"),
    ] {
        assert_eq!(refused(bytes), "Missing req.f", "{why}");
    }
    assert_eq!(refused(&nested(0x91, 64)), "Invalid message: nested too deep");
    for byte in [0x91, 0xdd] {
        assert_eq!(refused(&nested(byte, 1_000_000)), "Invalid message: nested too deep");
    }
    assert_eq!(refused(&nested(0x91, 63)), "Missing req.f", "cut, not too deep");
}

#[test]
fn hostile_cbor_is_refused() {
    let nested = |byte: u8, count: usize| [&b"CBOR\xa1\x61f"[..], &vec![byte; count]].concat();
    for (why, bytes) in [
        ("nothing", &b"CBOR"[..]),
        ("no map", b"CBOR\xf6"),
        ("an empty map", b"CBOR\xa0"),
        ("cut", b"CBOR\xa1\x61f\x65a.b"),
        ("trailing bytes", b"CBOR\xa1\x61f\x61a\xf6"),
        ("a key that is no text", b"CBOR\xa2\x61f\x61a\x01\x02"),
        ("a key of bytes", b"CBOR\xa2\x61f\x61a\x41p\x02"),
        ("text that is not UTF-8", b"CBOR\xa2\x61f\x61a\x61p\x61\xff"),
        ("half infinity", b"CBOR\xa2\x61f\x61a\x61p\xf9\x7c\0"),
        ("half a half", b"CBOR\xa2\x61f\x61a\x61p\xf9\x7c"),
        ("half NaN", b"CBOR\xa2\x61f\x61a\x61p\xf9\x7e\0"),
        ("infinity", b"CBOR\xa2\x61f\x61a\x61p\xfa\x7f\x80\0\0"),
        ("a tag", b"CBOR\xa2\x61f\x61a\x61p\xc2\x41\x01"),
        ("an unassigned simple value", b"CBOR\xa2\x61f\x61a\x61p\xf0"),
        ("a reserved length", b"CBOR\xa2\x61f\x61a\x61p\x1c"),
        ("a break in a definite list", b"CBOR\xa2\x61f\x61a\x61p\x81\xff"),
        ("a break instead of a value", b"CBOR\xbf\x61f\xff"),
        ("a chunk of another kind", b"CBOR\xa2\x61f\x61a\x61p\x7f\x41a\xff"),
        ("a text without end", b"CBOR\xa2\x61f\x61a\x61p\x7f\x61a"),
        (
            "a text longer than the message",
            b"CBOR\xa2\x61f\x61a\x61p\x7b\xff\xff\xff\xff\xff\xff\xff\xff",
        ),
        (
            "bytes longer than the message",
            b"CBOR\xa2\x61f\x61a\x61p\x5b\xff\xff\xff\xff\xff\xff\xff\xff",
        ),
        (
            "a list longer than the message",
            b"CBOR\xa2\x61f\x61a\x61p\x9b\xff\xff\xff\xff\xff\xff\xff\xff",
        ),
        ("a map longer than the message", b"CBOR\xbb\xff\xff\xff\xff\xff\xff\xff\xff\x61f\x61a"),
    ] {
        assert_eq!(refused(bytes), "Missing req.f", "{why}");
    }
    for byte in [0x81, 0x9f] {
        assert_eq!(refused(&nested(byte, 1_000_000)), "Invalid message: nested too deep");
        assert_eq!(refused(&nested(byte, 63)), "Missing req.f", "cut, not too deep");
    }
}

#[test]
fn nothing_is_relied_on_in_a_message_that_is_broken_further_on() {
    for bytes in [
        &br#"{"rid":"C1","f":"a.b:1.0:f""#[..],
        b"MPCK\x82\xa3rid\xa2C1\xa1f",
        b"CBOR\xa2\x63rid\x62C1\x61f",
    ] {
        let refusal = Request::parse(bytes).unwrap_err();
        assert_eq!((refusal.to_string().as_str(), refusal.rid()), ("Missing req.f", None));
    }
}

#[test]
fn every_form_of_a_value_is_read() {
    let value = |bytes: &[u8], coding: Coding| {
        let start: &[u8] = match coding {
            Coding::MsgPack => b"MPCK\x82\xa1f\xa9a.b:1.0:f\xa1p\x81\xa3any",
            Coding::Cbor => b"CBOR\xa2\x61f\x69a.b:1.0:f\x61p\xa1\x63any",
            Coding::Json => b"",
        };
        let message = [start, bytes].concat();
        checked(&message).unwrap().remove("any").unwrap_or(Value::Null)
    };
    for (bytes, expected) in [
        (&b"\xc2"[..], json!(false)),
        (b"\x7f", json!(127)),
        (b"\xe0", json!(-32)),
        (b"\xcc\xff", json!(255)),
        (b"\xcd\xff\xff", json!(65535)),
        (b"\xce\xff\xff\xff\xff", json!(u32::MAX)),
        (b"\xcf\xff\xff\xff\xff\xff\xff\xff\xff", json!(u64::MAX)),
        (b"\xd0\x80", json!(-128)),
        (b"\xd1\x80\0", json!(-32768)),
        (b"\xd2\x80\0\0\0", json!(i32::MIN)),
        (b"\xd3\x80\0\0\0\0\0\0\0", json!(i64::MIN)),
        (b"\xca\x3f\xc0\0\0", json!(1.5)),
        (b"\xd9\x01x", json!("x")),
        (b"\xda\0\x01x", json!("x")),
        (b"\xdb\0\0\0\x01x", json!("x")),
        (b"\xc5\0\x01\x01", json!("AQ==")),
        (b"\xc6\0\0\0\x01\x01", json!("AQ==")),
        (b"\xdc\0\x01\xc3", json!([true])),
        (b"\xde\0\x01\xa1k\xc3", json!({"k": true})),
        (b"\xdf\0\0\0\x01\xa1k\x90", json!({"k": []})),
    ] {
        assert_eq!(value(bytes, Coding::MsgPack), expected, "{bytes:x?}");
    }
    for (bytes, expected) in [
        (&b"\xf5"[..], json!(true)),
        (b"\xf7", json!(null)),
        (b"\x17", json!(23)),
        (b"\x1b\xff\xff\xff\xff\xff\xff\xff\xff", json!(u64::MAX)),
        (b"\x3b\x7f\xff\xff\xff\xff\xff\xff\xff", json!(i64::MIN)),
        (b"\xf9\x3e\0", json!(1.5)),
        (b"\xf9\xc4\0", json!(-4.0)),
        (b"\xf9\x7b\xff", json!(65504.0)),
        (b"\xf9\0\x01", json!(5.960_464_477_539_063e-8)),
        (b"\xf9\x80\0", json!(-0.0)),
        (b"\xfa\x3f\xc0\0\0", json!(1.5)),
        (b"\x7f\x61a\x60\x61b\xff", json!("ab")),
        (b"\x5f\x41\x01\x42\x02\x03\xff", json!("AQID")),
        (b"\x9f\x01\x9f\xff\xff", json!([1, []])),
    ] {
        assert_eq!(value(bytes, Coding::Cbor), expected, "{bytes:x?}");
    }
}

#[test]
fn bytes_in_typed_handlers() {
    let blob: Data = serde_json::from_value(json!("AQID")).unwrap();
    assert_eq!(blob.0, [1, 2, 3]);
    assert_eq!(serde_json::to_value(&blob).unwrap(), json!("AQID"));
    for bad in [json!("AQI"), json!("A Q="), json!(5), json!(["AQID"])] {
        assert!(serde_json::from_value::<Data>(bad.clone()).is_err(), "{bad}");
    }
}

fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_filter("JSON has it", |n| n.is_finite()).prop_map(Value::from),
        ".{0,40}".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 60, 20, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..20).prop_map(Value::from),
            prop::collection::btree_map(".{0,8}", inner, 0..20)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn all_codings_carry_the_same_values(value in values()) {
        let message = call(&json!({"any": value}));
        let expected = checked(message.to_string().as_bytes());
        for coding in BINARY {
            prop_assert_eq!(&checked(&coded(coding, &message)), &expected, "{:?}", coding);
        }
    }

    #[test]
    fn no_bytes_panic(
        mark in prop::sample::select(vec!["MPCK", "CBOR", "{\"f\"", ""]),
        bytes in prop::collection::vec(any::<u8>(), 0..100),
    ) {
        let _ = Request::parse(&[mark.as_bytes(), &bytes].concat());
    }

    #[test]
    fn a_changed_byte_does_not_panic(value in values(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        for coding in BINARY {
            let mut bytes = coded(coding, &call(&json!({"any": value})));
            let at = at.index(bytes.len());
            bytes[at] = byte;
            if let Ok(request) = Request::parse(&bytes) {
                drop(request.signed_fields().base());
            }
        }
    }
}

/// What a handler sees of a number in a parameter of the type `any`, or the refusal.
fn number_in(coding: Coding, number: &str) -> String {
    let message = format!(r#"{{"f":"a.b:1.0:f","p":{{"any":[{number}]}},"rid":"C1"}}"#);
    let bytes = match coding {
        Coding::Json => message.into_bytes(),
        Coding::MsgPack | Coding::Cbor => match serde_json::from_str(&message) {
            Ok(message) => coded(coding, &message),
            Err(_) => return "no number".to_owned(),
        },
    };
    match checked(&bytes) {
        Ok(params) => params["any"][0].to_string(),
        Err(refused) => refused,
    }
}

#[test]
fn numbers_are_exact_or_refused() {
    let same = [
        ("9007199254740993", "9007199254740993"),
        ("-9223372036854775808", "-9223372036854775808"),
        ("18446744073709551615", "18446744073709551615"),
        ("18446744073709551616", "18446744073709551616.0"),
        ("-0", "-0.0"),
        ("0.0", "0.0"),
        ("0e5", "0.0"),
        ("0.1", "0.1"),
        ("5e-324", "5e-324"),
        ("1e308", "1e308"),
    ];
    for (number, seen) in same {
        let seen: Value = serde_json::from_str(seen).unwrap();
        for coding in [Coding::Json, Coding::MsgPack, Coding::Cbor] {
            assert_eq!(number_in(coding, number), seen.to_string(), "{coding:?}");
            // and back
            let mut answer = Vec::new();
            Response::success(json!([seen])).write(coding, None, &mut answer);
            let Ok(super::Message::Response(read)) = super::Message::parse(&answer) else {
                panic!("{answer:?}")
            };
            assert_eq!(read.result(), Some(&json!([seen])), "{coding:?}");
        }
    }
    let altered =
        ["18446744073709551617", "-9223372036854775809", "123456789012345678901234567890"];
    let mut out = String::new();
    for number in altered {
        out += &number_in(Coding::Json, &format!(r#""9\"{number}\\",{number}"#));
        out.push('\n');
    }
    out += &number_in(Coding::Json, "1e400");
    expect![[r#"
        Invalid message: the number 18446744073709551617 cannot be kept exactly
        Invalid message: the number -9223372036854775809 cannot be kept exactly
        Invalid message: the number 123456789012345678901234567890 cannot be kept exactly
        Missing req.f"#]]
    .assert_eq(&out);
    // -2^64, and not a number
    let low = [&b"CBOR\xa2\x61f\x69a.b:1.0:f\x61p\xa1\x63any\x3b"[..], &[0xff; 8]].concat();
    let nan = b"CBOR\xa2\x61f\x69a.b:1.0:f\x61p\xa1\x63any\xf9\x7e\x00".to_vec();
    for bytes in [low, nan] {
        assert_eq!(checked(&bytes), Err("Missing req.f".to_owned()), "{bytes:?}");
    }
}

#[test]
fn a_duplicate_key_is_refused_with_its_place() {
    let duplicates = [
        (
            r#"{"rid":"C1","f":"a.b:1.0:f","p":{"any":[0,{"x":1,"y":{"z":1,"z":2}}],"text":"","text":""}}"#,
            "p.any.1.y.z",
        ),
        (r#"{"f":"a.b:1.0:f","p":{"text":"1","any":{"x":{}},"text":"2"},"rid":"C1"}"#, "p.text"),
        (r#"{"f":"a.b:1.0:f","p":{"te\u0078t":"1","text":"2"},"rid":"C1"}"#, "p.text"),
        (r#"{"f":"a.b:1.0:f","f":"a.b:1.0:f","rid":"C1"}"#, "f"),
        (r#"{"f":"a.b:1.0:f","rid":"C1","p":{},"p":{}}"#, "p"),
        (r#"{"f":"a.b:1.0:f","rid":"C1","zzz":1,"zzz":1}"#, "zzz"),
        (r#"{"f":"a.b:1.0:f","rid":"C1","sec":{"user":"a","user":"b"}}"#, "sec.user"),
    ];
    for (message, place) in duplicates {
        let refused = Request::parse(message.as_bytes()).unwrap_err();
        assert_eq!(refused.to_string(), format!("Invalid message: duplicate key {place}"));
        assert_eq!(refused.rid().map(|rid| rid.as_value()), Some(&json!("C1")), "{message}");
    }
    for bytes in [
        &b"MPCK\x83\xa1f\xa9a.b:1.0:f\xa1p\x81\xa3any\x92\xc0\x82\xa1k\x01\xa1k\x02\xa3rid\xa2C1"[..],
        b"CBOR\xa3\x61f\x69a.b:1.0:f\x61p\xa1\x63any\x82\xf6\xbf\x61k\x01\x61k\x02\xff\x63rid\x62C1",
    ] {
        let refused = Request::parse(bytes).unwrap_err();
        assert_eq!(refused.to_string(), "Invalid message: duplicate key p.any.1.k");
        assert_eq!(refused.rid().map(|rid| rid.as_value()), Some(&json!("C1")));
    }
}
