use super::*;

fn selects(selector: &Selector) -> bool {
    let labels = [
        ("app", "web"),
        ("tier", "front"),
        ("empty", ""),
        ("age", "7"),
        ("in", "in"),
    ];
    selector.selects(|key| labels.iter().find(|it| it.0 == key).map(|it| it.1))
}

#[test]
fn requirements_are_tested() {
    for (text, expect) in [
        ("", true),
        (" ", true),
        ("app", true),
        ("!app", false),
        ("! other", true),
        ("app=web", true),
        ("app == web , tier=front", true),
        ("app=web,tier=back", false),
        ("app!=web", false),
        ("other!=web", true),
        ("empty=", true),
        ("empty=,app", true),
        ("app in (db, web),tier", true),
        ("app in(web)", true),
        ("app in (db)", false),
        ("empty in ()", true),
        ("empty in (,a)", true),
        ("empty in (a,)", true),
        ("empty in (a,,b)", true),
        ("app notin (db,web)", false),
        ("app notin (db),other notin (x)", true),
        ("in in (in,notin)", true),
        ("age>6,age<8", true),
        ("age > 7", false),
        ("app>1", false),
        ("other<1", false),
        ("!service.kubernetes.io/headless,app", true),
    ] {
        let selector = Selector::parse(text).unwrap();
        assert_eq!(selects(&selector), expect, "{text}");
        assert_eq!(selector.as_str(), text);
        let requirements = selector.requirements().iter();
        let shown: Vec<String> = requirements.map(ToString::to_string).collect();
        let again = Selector::parse(&shown.join(",")).unwrap();
        assert_eq!(again.requirements(), selector.requirements(), "{text}");
    }
}

/// Those of `TestParserLookahead` and `TestRequirementConstructor`'s rules, in the words that kubectl shows.
#[test]
fn what_cannot_be_read_is_told_in_kubernetes_words() {
    let name = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
                alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
                '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
    let value = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start \
                 and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for \
                 validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
    let bad = "unable to parse requirement: ";
    for (text, expect) in [
        (
            "=web",
            "found '=', expected: !, identifier, or 'end of string'".to_owned(),
        ),
        (
            "a b",
            format!("{bad}found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ),
        (
            "a=b c",
            "found 'c', expected: ',' or 'end of string'".to_owned(),
        ),
        (
            "a=b=c",
            "found '=', expected: ',' or 'end of string'".to_owned(),
        ),
        ("a===b", format!("{bad}found '=', expected: identifier")),
        (
            "!a=b",
            "found '=', expected: ',' or 'end of string'".to_owned(),
        ),
        (
            "a,,b",
            "found ',', expected: identifier after ','".to_owned(),
        ),
        ("a,", "found '', expected: identifier after ','".to_owned()),
        ("!", format!("{bad}found '', expected: identifier")),
        ("a in b", format!("{bad}found 'b' expected: '('")),
        ("a in (b", format!("{bad}found '', expected: ',' or ')'")),
        (
            "a in (b c)",
            format!("{bad}found 'c', expected: ',' or ')'"),
        ),
        (
            "a in (",
            format!("{bad}found '', expected: ',', ')' or identifier"),
        ),
        (
            "a in (b,=)",
            format!("{bad}found '=', expected: ',', or identifier"),
        ),
        ("-a=b", format!("{bad}<nil>: Invalid value: \"-a\": {name}")),
        (
            "a=-b",
            format!("{bad}values[0][a]: Invalid value: \"-b\": {value}"),
        ),
        (
            "a in (b,c-,d-)",
            format!(
                "{bad}[values[1][a]: Invalid value: \"c-\": {value}, values[2][a]: Invalid value: \"d-\": {value}]"
            ),
        ),
        (
            "a>-5",
            format!("{bad}values[0][a]: Invalid value: \"-5\": {value}"),
        ),
        (
            "a>b",
            format!(
                "{bad}values[0]: Invalid value: \"b\": for 'Gt', 'Lt' operators, the value must be an integer"
            ),
        ),
    ] {
        assert_eq!(Selector::parse(text).unwrap_err(), expect, "{text}");
    }
}

#[test]
fn the_object_form_is_the_same_selector() {
    let of = |labels: &[(&'static str, &'static str)],
              expressions: &[(&'static str, &'static str, &[&'static str])]| {
        let expressions = expressions
            .iter()
            .map(|(key, operator, values)| Expression {
                key,
                operator,
                values: values.to_vec(),
            });
        Selector::of(labels.iter().copied(), expressions)
    };
    let selector = of(
        &[("app", "web")],
        &[
            ("tier", "In", &["front", "back"]),
            ("app", "NotIn", &["db"]),
            ("app", "Exists", &[]),
            ("old", "DoesNotExist", &[]),
        ],
    );
    let selector = selector.unwrap();
    assert_eq!(
        selector.as_str(),
        "app=web,tier in (back,front),app notin (db),app,!old"
    );
    assert_eq!(Selector::parse(selector.as_str()), Ok(selector.clone()));
    assert!(selects(&selector) && of(&[], &[]).unwrap().is_empty());
    for (operator, values, why) in [
        ("In", &[][..], "app In (): In needs values"),
        ("Exists", &["a"], "app Exists (a): Exists takes no values"),
        (
            "Like",
            &["a"],
            "app Like (a): \"Like\" is not one of In, NotIn, Exists, DoesNotExist",
        ),
    ] {
        let error = of(&[], &[("app", operator, values)]).unwrap_err();
        assert_eq!(error, why);
    }
}
