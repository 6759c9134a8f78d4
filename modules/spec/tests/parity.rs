//! Our coercion against recordings of ansible-core's own `check_type_*` (tests/record_check_type.py made them).

use serde_json::{Map, Value};
use spec::{ModuleSpec, Opt, parse};

const OPTS: &[Opt] = &[
    Opt::str("str", "S."),
    Opt::int("int", "I.").keep_empty(),
    Opt::float("float", "F.").keep_empty(),
    Opt::bool("bool", "B.").keep_empty(),
    Opt::list_of("list", spec::Kind::Raw, "L.").keep_empty(),
    Opt::dict("dict", "D.", &[]).keep_empty(),
];

const SPEC: ModuleSpec = ModuleSpec {
    name: "demo",
    short: "Demo",
    doc: &["Demo."],
    options: &[OPTS],
    ..ModuleSpec::EMPTY
};

#[test]
fn coercion_equals_the_recordings() {
    let text = include_str!("check_type.json");
    let recorded: Value = serde_json::from_str(text).expect("JSON");
    let cases = recorded["cases"].as_array().expect("cases");
    assert!(cases.len() > 500, "{}", cases.len());
    let mut wrong = Vec::new();
    for case in cases {
        let kind = case[0].as_str().expect("kind");
        let mut raw = Map::new();
        raw.insert(kind.to_owned(), case[1].clone());
        let got = parse(&SPEC, &raw, &|_| None);
        let same = match (case[2].as_str(), &got) {
            (Some("ok"), Ok(args)) => args.get(kind) == Some(&case[3]),
            // What JSON cannot carry (nan, a set) or 64 bits is refused.
            (Some("refused" | "not JSON" | "not 64 bits"), Err(_)) => true,
            _ => false,
        };
        if !same {
            let got = got
                .map(|a| a.get(kind).cloned())
                .map_err(|e| e[0].to_string());
            wrong.push(format!("{case}: {got:?}"));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {}:\n{}",
        wrong.len(),
        cases.len(),
        wrong.join("\n")
    );
}
