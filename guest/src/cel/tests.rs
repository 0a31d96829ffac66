//! Tests of conditions: bounds, places of mistakes, and what is not known yet.

use std::cell::RefCell;

use super::*;

const DIALECT: Dialect =
    Dialect { variables: &["args", "labels", "later"], functions: &[("known", 1), ("path.within", 2)] };

/// A world with arguments and labels, in which `later` is not known yet.
struct World {
    args: crate::json::Value<'static>,
    asked: RefCell<Vec<String>>,
}

impl<'a> Environment<'a> for World {
    fn variable(&'a self, variable: usize) -> Option<Value<'a>> {
        match variable {
            0 => Some(Value::from_json(&self.args)),
            1 => Some(Value::list([Value::String("private".into())])),
            _ => None,
        }
    }

    fn call(&'a self, function: usize, arguments: &[Value<'a>]) -> Result<Value<'a>, String> {
        let told: Vec<&str> = arguments.iter().filter_map(Value::as_str).collect();
        self.asked.borrow_mut().push(format!("{}({})", DIALECT.functions[function].0, told.join(", ")));
        if told.is_empty() { Err("known takes a text".to_owned()) } else { Ok(Value::Bool(true)) }
    }
}

fn world(args: &'static str) -> World {
    World { args: crate::json::parse(args).unwrap(), asked: RefCell::default() }
}

/// Evaluates a condition to a truth.
fn truth(text: &str, args: &'static str) -> Result<bool, NoValue> {
    let condition = CelCondition::new(text, &DIALECT).unwrap_or_else(|error| panic!("{text}: {error:?}"));
    let world = world(args);
    match condition.evaluate(&world)? {
        Value::Bool(truth) => Ok(truth),
        other => panic!("{text} is {other:?}"),
    }
}

#[test]
fn a_mistake_is_named_with_its_place() {
    for (text, at, message) in [
        ("arg.path == 1", 0, r#"there is no variable "arg"; did you mean "args"?"#),
        ("args.path = 1", 10, "'=' means nothing here; to compare, write `==`"),
        ("args.a.startswith('x')", 7, r#"values have no function "startswith"; did you mean "startsWith"?"#),
        (
            "startsWith(args.a, 'x')",
            0,
            r#"there is no function "startsWith"; it is called on a value, as in `x.startsWith(…)`"#,
        ),
        ("knwon(1)", 0, r#"there is no function "knwon"; did you mean "known"?"#),
        ("path.inside(args.a, '/')", 0, r#"there is no function "path.inside""#),
        ("known(1, 2)", 0, "known takes 1 arguments, not 2"),
        ("args.a.matches(args.b)", 20, "the pattern of matches must be written out as a string"),
        ("args.a.matches('[')", 15, "this is no regular expression: unclosed character class"),
        ("args.a == 1 &&", 14, "expected a value, found the end"),
        ("(args.a", 7, "expected `)`, found the end"),
        ("args.a 1", 7, "expected an operator or the end, found 1"),
        ("1u == 1", 0, "unsigned numbers are not supported; leave out the `u`"),
        ("args.in", 5, "`in` is a keyword; write [\"in\"] instead"),
        ("[1].all(1, true)", 8, "all begins with a variable, found 1"),
        ("has(args)", 4, "has takes a member, as in `has(args.path)`"),
        ("'\\q'", 1, "this is no escape; for a backslash, write two"),
    ] {
        let error = CelCondition::new(text, &DIALECT).expect_err(text);
        assert_eq!((error.at, error.message.as_str()), (at, message), "{text}");
    }
}

#[test]
fn what_is_not_known_yet_matters_only_if_nothing_else_decides() {
    for (text, expected) in [
        ("later", Err(NoValue::Unknown)),
        ("later.a == 1 || true", Ok(true)),
        ("false && later", Ok(false)),
        ("later && true", Err(NoValue::Unknown)),
        ("args.missing == 1 && later", Err(NoValue::Unknown)),
        ("later || args.missing == 1", Err(NoValue::Unknown)),
        ("[1, 2].exists(x, x == 2 || later)", Ok(true)),
        ("true ? later : false", Err(NoValue::Unknown)),
        ("\"private\" in labels && !(later)", Err(NoValue::Unknown)),
    ] {
        assert_eq!(truth(text, "{}"), expected, "{text}");
    }
}

#[test]
fn foreign_functions_are_asked_with_values() {
    let world = world(r#"{"to":"a@b.example","path":"/x"}"#);
    let condition = CelCondition::new("known(args.to) && path.within(args.path, '/')", &DIALECT).unwrap();
    assert_eq!(condition.evaluate(&world), Ok(Value::Bool(true)));
    assert_eq!(*world.asked.borrow(), ["known(a@b.example)", "path.within(/x, /)"]);
    assert_eq!(truth("known(1)", "{}"), Err(NoValue::Error(0, "known takes a text".to_owned())));
}

#[test]
fn a_condition_says_what_it_reads() {
    let text =
        r#"args.a.b == 1 && has(args.c) && args["d"].size() > 0 && args.e.exists(x, x.f == 1) && args[labels[0]]"#;
    let condition = CelCondition::new(text, &DIALECT).unwrap();
    let paths: Vec<(String, bool)> =
        condition.paths_of(0).into_iter().map(|path| (path.names.join("."), path.is_tested)).collect();
    let expected = [("a.b", false), ("c", true), ("d", false), ("e", false)].map(|(path, is)| (path.to_owned(), is));
    assert_eq!(paths, expected);
    assert!(!condition.calls(0));
    for (text, expected) in [("1 < 2", true), ("[1].all(x, x > 0)", true), ("labels == []", false), ("known(1)", false)]
    {
        assert_eq!(CelCondition::new(text, &DIALECT).unwrap().is_constant(), expected, "{text}");
    }
}

#[test]
fn a_condition_that_costs_too_much_fails_and_nothing_makes_up_for_it() {
    let many = format!("[{}]", "1,".repeat(200));
    let nested = format!("{many}.all(a, {many}.all(b, {many}.all(c, a + b + c > 0)))");
    let costly =
        |text: &str| matches!(truth(text, "{}"), Err(NoValue::Error(_, why)) if why.contains("costs too much"));
    assert!(costly(&nested));
    assert!(costly(&format!("{nested} || true")));
    assert!(costly(&format!("[1, 2].exists(x, x == 2 || {nested})")));
    let grows = format!("{}.size() > 0", (0..40).fold("[1]".to_owned(), |text, _| format!("{text}.map(x, [x, x])")));
    assert!(costly(&grows));
    let doubles = (0..30).fold("['ab']".to_owned(), |text, _| format!("{text}.map(x, x + x)"));
    assert!(costly(&format!("{doubles}.size() > 0")));
    let lists = (0..30).fold("[1]".to_owned(), |text, _| format!("[{text}].map(x, x + x)[0]"));
    assert!(costly(&format!("{lists}.size() > 0")));
}

#[test]
fn hostile_conditions_are_refused_or_answered() {
    for text in [
        "(".repeat(1000),
        "!".repeat(1000) + "true",
        "-".repeat(1000) + "1",
        "[".repeat(1000),
        "{1:".repeat(1000),
        "args".to_owned() + &".a".repeat(1000),
        "args".to_owned() + &"[0]".repeat(1000),
        "1".to_owned() + &" + 1".repeat(1000),
        "1 ? ".repeat(1000),
        "true ? 1 : ".repeat(1000) + "1",
        "x".repeat(70_000),
        "'a'.matches('".to_owned() + &"(a{1000}){1000}".repeat(10) + "')",
    ] {
        assert!(CelCondition::new(&text, &DIALECT).is_err(), "{}", &text[..20]);
    }
    let chain = format!("true{}", " && true".repeat(7000));
    assert_eq!(truth(&chain, "{}"), Ok(true));
}
