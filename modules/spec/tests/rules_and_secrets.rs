//! The rules between options, the environment, all errors at once, and secrets that appear nowhere.

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use spec::{ArgError, Args, Kind, MASK, ModuleSpec, Opt, parse, secrets};

const LOGIN: &[Opt] = &[
    Opt::str("user", "U.").env("DEMO_USER"),
    Opt::str("password", "P.").env("DEMO_PASSWORD").secret(),
    Opt::str("token_id", "T."),
    Opt::str("token_secret", "T.")
        .alias(&["secret_token"])
        .secret(),
    Opt::int("port", "P.")
        .default("8006")
        .env("DEMO_PORT")
        .range(1, 65535),
    Opt::bool("validate_certs", "V.")
        .default("true")
        .env("DEMO_VALIDATE"),
    Opt::int("pin", "A secret number.").secret().range(1, 10),
    Opt::strs("tokens", "Secrets.").secret().choices(&["none"]),
];

const DEEP: &[Opt] = &[
    Opt::str("login", "L.").required(),
    Opt::str("key", "K.")
        .alias(&["pass"])
        .env("DEMO_KEY")
        .secret(),
];

const OWN: &[Opt] = &[
    Opt::int("vmid", "V.").range(100, 999_999_999),
    Opt::str("name", "N."),
    Opt::str("state", "S.")
        .choices(&["present", "absent", "moved"])
        .default("\"present\""),
    Opt::bool("force", "F."),
    Opt::str("node", "N."),
    Opt::str("storage", "S."),
    Opt::str("target", "T."),
    Opt::dict("api", "A.", DEEP),
    Opt::dicts("apis", "A.", DEEP),
    Opt::list_of("numbers", Kind::Int, "N."),
    Opt::raw("any", "A."),
    Opt::path("file", "F."),
    Opt::float("rate", "R.").range(0, 10),
];

const SPEC: ModuleSpec = ModuleSpec {
    name: "demo",
    short: "Demo",
    doc: &["Demo."],
    options: &[OWN, LOGIN],
    required_one_of: &[&["vmid", "name"]],
    required_together: &[&["token_id", "token_secret"]],
    mutually_exclusive: &[&["storage", "target"], &["state", "force"]],
    required_by: &[("target", &["node"])],
    required_if: &[
        ("state", "absent", &["node"], false),
        ("state", "moved", &["storage", "target"], true),
        ("force", "true", &["node"], false),
        ("port", "1", &["node"], false),
    ],
    ..ModuleSpec::EMPTY
};

fn run_env(raw: Value, env: &[(&str, &str)]) -> Result<Args, Vec<ArgError>> {
    let raw: Map<String, Value> = raw.as_object().cloned().unwrap_or_default();
    parse(&SPEC, &raw, &|name| {
        env.iter()
            .find(|(n, _)| *n == name)
            .map(|(_, v)| (*v).to_owned())
    })
}

fn run(raw: Value) -> Result<Args, Vec<ArgError>> {
    run_env(raw, &[])
}

#[test]
fn rules_between_options() {
    let table = [
        (json!({}), vec!["vmid: one of `vmid`, `name` is required"]),
        (json!({"vmid": 100}), vec![]),
        // Given but wrong is one error, not two.
        (
            json!({"vmid": 1}),
            vec!["vmid: expected 100 to 999999999, got `1`"],
        ),
        (
            json!({"name": "a", "token_id": "t"}),
            vec![
                "token_secret: `token_id`, `token_secret` are required together; `token_secret` is missing",
            ],
        ),
        (
            json!({"name": "a", "storage": "s", "target": "t", "node": "n"}),
            vec!["storage: `storage`, `target` exclude each other; give only one"],
        ),
        // A default does not exclude what is given.
        (json!({"name": "a", "force": false}), vec![]),
        (
            json!({"name": "a", "force": false, "state": "present"}),
            vec!["state: `state`, `force` exclude each other; give only one"],
        ),
        (
            json!({"name": "a", "target": "t"}),
            vec!["node: required when `target` is given; `node` is missing"],
        ),
        (
            json!({"name": "a", "state": "absent"}),
            vec![
                "node: required when `state` is `absent`: `node` (all of them); `node` is missing",
            ],
        ),
        (json!({"name": "a", "state": "absent", "node": "n"}), vec![]),
        (
            json!({"name": "a", "state": "moved"}),
            vec![
                "storage: required when `state` is `moved`: `storage`, `target` (one of them); `storage`, `target` is missing",
            ],
        ),
        (
            json!({"name": "a", "state": "moved", "storage": "s"}),
            vec![],
        ),
        (
            json!({"name": "a", "force": "yes"}),
            vec!["node: required when `force` is `true`: `node` (all of them); `node` is missing"],
        ),
        (
            json!({"name": "a", "port": "1"}),
            vec!["node: required when `port` is `1`: `node` (all of them); `node` is missing"],
        ),
    ];
    for (raw, want) in table {
        let got: Vec<String> = match run(raw.clone()) {
            Ok(_) => Vec::new(),
            Err(errors) => errors.iter().map(ToString::to_string).collect(),
        };
        assert_eq!(got, want, "{raw}");
    }
}

#[test]
fn the_environment_steps_in_only_for_what_is_not_given() {
    let env = [
        ("DEMO_USER", "root@pam"),
        ("DEMO_PORT", "8443"),
        ("DEMO_VALIDATE", "False"),
        ("DEMO_PASSWORD", ""),
    ];
    let args = run_env(json!({"name": "a", "port": 1234}), &env).expect("fine");
    assert_eq!(args.str("user"), Some("root@pam"));
    assert_eq!(args.int("port"), Some(1234));
    assert_eq!(args.bool("validate_certs"), Some(false));
    assert!(args.given("user") && args.given("validate_certs"));
    // Set but empty is unset.
    assert_eq!(args.get("password"), None);
    assert!(!args.given("password"));
    let args = run_env(json!({"name": "a", "port": ""}), &[("DEMO_PORT", "")]).expect("fine");
    assert_eq!(args.int("port"), Some(8006));
    assert!(!args.given("port"));
    let errors = run_env(json!({"name": "a"}), &[("DEMO_PORT", "x")]).expect_err("bad port");
    assert!(
        errors[0].msg.contains("environment variable DEMO_PORT"),
        "{errors:?}"
    );
    // Suboptions too.
    let args = run_env(
        json!({"name": "a", "api": {"login": "l"}}),
        &[("DEMO_KEY", "k")],
    )
    .expect("fine");
    assert_eq!(
        args.dict("api"),
        json!({"login": "l", "key": "k"}).as_object()
    );
}

#[test]
fn all_errors_at_once() {
    let errors = run(json!({
        "vmdi": 5, "vmid": "x", "state": "presnt", "port": 0, "validate_certs": "perhaps",
        "api": {"key": 5, "user": "u"}, "apis": [{"login": 1}, {}], "numbers": "1,b,3,d",
        "token_id": "t", "rate": 11,
    }))
    .expect_err("many");
    let paths: Vec<&str> = errors.iter().map(|e| e.path.as_str()).collect();
    assert_eq!(
        paths,
        [
            "vmdi",
            "vmid",
            "state",
            "api.user",
            "api.login",
            "apis[1].login",
            "numbers[1]",
            "numbers[3]",
            "rate",
            "port",
            "validate_certs",
            "token_secret",
        ]
    );
}

#[test]
fn secrets_are_in_no_error_no_debug_no_shown_value() {
    const SECRET: &str = "hunter2-hunter2";
    let bad = [
        json!({"pin": SECRET}),
        json!({"pin": [SECRET]}),
        json!({"tokens": SECRET}),
        json!({"tokens": [SECRET, null]}),
        json!({"tokens": {"a": SECRET}}),
        json!({"api": SECRET}),
        json!({"api": format!("key={SECRET} x")}),
        json!({"api": format!("login=a,key=x,{SECRET}=1")}),
        json!({"api": format!("{{'key': '{SECRET}', oops}}")}),
        json!({"api": {"key": SECRET}}),
        json!({"api": {"key": SECRET, "pass": "another-one"}}),
        json!({"apis": [{"key": SECRET}, format!("key={SECRET}")]}),
        json!({"apis": [[SECRET]]}),
        json!({"password": SECRET, "state": SECRET}),
        json!({"password": SECRET, "vmid": format!("{}{SECRET}", "x".repeat(70))}),
        json!({"password": SECRET, SECRET: 1}),
        json!({"pasword": SECRET}),
        json!({"token_secret": SECRET, "secret_token": "something else"}),
    ];
    for raw in bad {
        let errors = run(raw.clone()).expect_err(&raw.to_string());
        let text = format!("{errors:?} {}", errors[0]);
        assert!(!text.contains("hunter2"), "{raw}: {text}");
    }
    let errors = run_env(
        json!({"name": "a", "node": SECRET, "rate": SECRET}),
        &[("DEMO_PASSWORD", SECRET)],
    )
    .expect_err("rate");
    assert_eq!(errors[0].value.as_deref(), Some(MASK));

    let args = run(json!({
        "name": "a", "password": SECRET, "pin": 7, "apis": [{"login": "l", "pass": "nested-secret"}],
        "api": "login=l,key=text-secret", "token_id": "t", "token_secret": "short",
    }))
    .expect("fine");
    assert_eq!(secrets(&args), [SECRET, "nested-secret", "text-secret"]);
    let secret = args.secret("password").expect("given");
    assert_eq!(secret.expose(), SECRET);
    let shown = format!("{args:?} {} {secret} {secret:?}", args.to_value());
    for word in ["hunter2", "nested-secret", "text-secret", "short"] {
        assert!(!shown.contains(word), "{shown}");
    }
    assert_eq!(
        args.to_value()["apis"],
        json!([{"login": "l", "key": MASK}])
    );
    assert_eq!(
        args.values()["apis"],
        json!([{"login": "l", "key": "nested-secret"}])
    );
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        "[-+0-9._eE ]{0,12}".prop_map(Value::from),
        "[\\[\\]{}(),:'\"\\\\a-z=0-9 uxN]{0,40}".prop_map(Value::from),
        "[{\\[(]{1,300}".prop_map(Value::from),
        "[~${}/A-Z]{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::vec((any_name(), inner), 0..5)
                .prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
        ]
    })
}

fn any_name() -> impl Strategy<Value = String> {
    let names: Vec<String> = SPEC
        .all()
        .chain(DEEP)
        .flat_map(|o| std::iter::once(o.name).chain(o.aliases.iter().copied()))
        .map(str::to_owned)
        .collect();
    prop_oneof![8 => prop::sample::select(names), 1 => any::<String>(), 1 => "_ansible_[a-z]{0,5}"]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn parse_never_panics_and_is_stable(
        pairs in prop::collection::vec((any_name(), any_json()), 0..8),
        variable in any::<String>(),
    ) {
        let raw: Map<String, Value> = pairs.into_iter().collect();
        let env = |name: &str| (name != "DEMO_USER").then(|| variable.clone());
        if let Ok(args) = parse(&SPEC, &raw, &env) {
            // What came out goes in again and stays what it is (paths are expanded once only).
            let mut again = args.values().clone();
            again.remove("file");
            again.remove("any");
            again.retain(|k, v| {
                let empty = v.as_str() == Some("") && SPEC.option(k).is_some_and(|o| o.kind != Kind::Str);
                !empty && args.given(k)
            });
            let second = parse(&SPEC, &again, &env);
            prop_assert!(second.is_ok(), "{:?}", second);
            for (name, value) in &again {
                prop_assert_eq!(second.as_ref().ok().and_then(|a| a.get(name)), Some(value));
            }
        }
    }

    #[test]
    fn a_secret_is_never_shown(secret in "[!-~]{8,20}", values in prop::collection::vec((any_name(), any_json()), 0..6)) {
        // A secret that is a piece of our own words or of another given text is no leak.
        prop_assume!(!"environment variable required together 999999999".contains(&secret));
        let mut raw: Map<String, Value> = values.into_iter().collect();
        raw.remove("password");
        prop_assume!(!json!(raw).to_string().contains(&secret));
        raw.insert("password".to_owned(), json!(secret));
        raw.insert("state".to_owned(), json!(secret));
        raw.insert("apis".to_owned(), json!([format!("key={secret}"), {"key": secret, "pass": secret}]));
        let errors = parse(&SPEC, &raw, &|_| None).expect_err("state is wrong");
        for error in errors {
            prop_assert!(!format!("{error} {:?} {:?}", error.path, error.value).contains(&secret), "{}", error);
        }
    }

    #[test]
    fn literals_never_panic(text in any::<String>(), odd in "[\\[\\]{}(),:'\"\\\\uxUN0-9a-fTrueFlsNo +-.]{0,60}") {
        let _ = spec::parse_literal(&text);
        let _ = spec::parse_literal(&odd);
    }

    #[test]
    fn json_reads_the_same_as_a_literal(value in any_json()) {
        // JSON differs from Python in its three words only.
        let text = value.to_string();
        prop_assume!(!["true", "false", "null"].iter().any(|w| text.contains(w)));
        prop_assert_eq!(spec::parse_literal(&text), Ok(value));
    }

    #[test]
    fn python_prints_what_the_literal_parser_reads(value in any_json()) {
        let printed = spec::python_str(&json!([value]));
        let read = spec::parse_literal(&printed).map_err(|e| TestCaseError::fail(format!("{printed}: {e}")));
        // Deeper nesting than allowed does not occur here.
        prop_assert_eq!(read?, json!([value]));
    }
}

#[test]
fn nesting_is_bounded() {
    let deep = "[".repeat(100_000);
    assert!(spec::parse_literal(&deep).is_err());
    let fits = format!("{}{}", "[".repeat(60), "]".repeat(60));
    assert!(spec::parse_literal(&fits).is_ok());
}
