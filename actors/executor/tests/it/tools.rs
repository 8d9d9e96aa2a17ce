//! The promise: tools are functions that are there, each under a name of its own.

use asyncsteps_executor::typed::Interface;
use asyncsteps_executor::{ConfigError, Executor, Returns, Steps};

fn book(steps: &Steps<(), ()>) -> Returns<()> {
    steps.pass().returns()
}

/// An executor whose interfaces list this function as a tool.
fn built(interfaces: &[&str], tool: &str) -> Result<Executor, ConfigError> {
    let interfaces = interfaces.iter().map(|id| Interface::new(id.parse().expect("a name")));
    let hosted = interfaces.fold(Executor::builder(), |builder, interface| {
        builder.service(interface, (), |functions| {
            functions.on("book", book).tool(tool, "Books a ride");
        })
    });
    hosted.build()
}

#[actix::test]
async fn a_tool_is_listed_with_its_text() {
    let tools = built(&["acme.rides:1.0"], "book").expect("it fits").tools();
    let [tool] = &*tools else { panic!("{tools:?}") };
    assert_eq!((tool.function.as_str(), &*tool.what), ("acme.rides:1.0:book", "Books a ride"));
    assert!(!tool.is_stored);
}

#[test]
fn a_tool_that_is_no_function_or_has_the_name_of_another_is_a_mistake() {
    let mistake = |interfaces: &[&str], tool: &str| {
        built(interfaces, tool).expect_err("a mistake").to_string()
    };
    assert_eq!(mistake(&["acme.rides:1.0"], "sell"), "acme.rides:1.0 has no function sell");
    assert_eq!(
        mistake(&["acme.rides:1.0", "acme.rooms:1.0"], "book"),
        "acme.rooms:1.0 lists a tool under the name of acme.rides:1.0:book, which is one"
    );
}
