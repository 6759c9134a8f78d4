//! Table tests: what arrives, what it becomes. Parity with ansible-core is in parity.rs.

use serde_json::{Map, Value, json};
use spec::{ArgError, Args, Kind, ModuleSpec, Opt, parse};

const DISK: &[Opt] = &[
    Opt::str("datastore", "Where.").alias(&["ds"]).required(),
    Opt::int("gib", "Size.").alias(&["size_gib"]).range(1, 1000),
    Opt::str("version", "Version.")
        .default("\"2.0\"")
        .choices(&["1.2", "2.0"]),
];

const OPTS: &[Opt] = &[
    Opt::str("s", "S."),
    Opt::int("i", "I.").alias(&["id"]).range(-10, 5000),
    Opt::float("f", "F."),
    Opt::bool("b", "B."),
    Opt::path("p", "P."),
    Opt::raw("r", "R."),
    Opt::strs("l", "L."),
    Opt::list_of("li", Kind::Int, "L.").range(1, 4094),
    Opt::strs("lc", "L.").choices(&["on", "one", "two"]),
    Opt::dict("d", "D.", &[]),
    Opt::dict("disk", "D.", DISK),
    Opt::dicts("disks", "D.", DISK),
    Opt::str("discard", "D.").choices(&["ignore", "on"]),
    Opt::str("amb", "D.").choices(&["yes", "on"]),
    Opt::int("ic", "I.").choices(&["2", "4"]),
    Opt::str("dflt", "D.").default("\"x\""),
];

const SPEC: ModuleSpec = ModuleSpec {
    name: "demo",
    short: "Demo",
    doc: &["Demo."],
    options: &[OPTS],
    ..ModuleSpec::EMPTY
};

fn env(name: &str) -> Option<String> {
    match name {
        "HOME" => Some("/home/u".to_owned()),
        "DIR" => Some("dir".to_owned()),
        _ => None,
    }
}

fn run(raw: Value) -> Result<Args, Vec<ArgError>> {
    let raw: Map<String, Value> = raw.as_object().cloned().unwrap_or_default();
    parse(&SPEC, &raw, &env)
}

#[test]
fn the_table_is_sound() {
    assert_eq!(spec::lint(&SPEC), Vec::<String>::new());
}

#[test]
fn values_become_their_type() {
    let table = [
        ("s", json!("x"), json!("x")),
        ("s", json!(""), json!("")),
        ("s", json!(5), json!("5")),
        ("s", json!(2.0), json!("2.0")),
        ("s", json!(1e16), json!("1e+16")),
        ("s", json!(0.00001), json!("1e-05")),
        ("s", json!(true), json!("True")),
        ("s", json!(false), json!("False")),
        (
            "s",
            json!({"a": [1, "it's", null, true]}),
            json!("{'a': [1, \"it's\", None, True]}"),
        ),
        ("i", json!(5), json!(5)),
        ("i", json!("5"), json!(5)),
        ("i", json!(" 5 "), json!(5)),
        ("i", json!("-5"), json!(-5)),
        ("i", json!("+5"), json!(5)),
        ("i", json!("2_048"), json!(2048)),
        ("i", json!(2.0), json!(2)),
        ("i", json!("2.0"), json!(2)),
        ("i", json!("1e3"), json!(1000)),
        ("i", json!("20.50e1"), json!(205)),
        ("i", json!("0e99"), json!(0)),
        ("i", json!(true), json!(1)),
        ("id", json!("7"), json!(7)),
        ("f", json!(1), json!(1.0)),
        ("f", json!("1.5"), json!(1.5)),
        ("f", json!("1e-3"), json!(0.001)),
        ("f", json!(true), json!(1.0)),
        ("b", json!(true), json!(true)),
        ("b", json!("yes"), json!(true)),
        ("b", json!("True"), json!(true)),
        ("b", json!(" On "), json!(true)),
        ("b", json!("t"), json!(true)),
        ("b", json!(1), json!(true)),
        ("b", json!(1.0), json!(true)),
        ("b", json!("1"), json!(true)),
        ("b", json!("no"), json!(false)),
        ("b", json!("FALSE"), json!(false)),
        ("b", json!(0), json!(false)),
        ("b", json!("0"), json!(false)),
        ("p", json!("~/x"), json!("/home/u/x")),
        ("p", json!("~"), json!("/home/u")),
        ("p", json!("~other/x"), json!("~other/x")),
        (
            "p",
            json!("/a/$DIR/${DIR}x/$NONE/${NONE}/$"),
            json!("/a/dir/dirx/$NONE/${NONE}/$"),
        ),
        ("r", json!([1, {"a": null}]), json!([1, {"a": null}])),
        ("l", json!(["a", 1, true]), json!(["a", "1", "True"])),
        ("l", json!("a,b"), json!(["a", "b"])),
        ("l", json!("a, b"), json!(["a", " b"])),
        ("l", json!("a"), json!(["a"])),
        ("l", json!(5), json!(["5"])),
        ("l", json!([]), json!([])),
        ("l", json!("['a', 'b']"), json!(["a", "b"])),
        ("l", json!("[\"a\"]"), json!(["a"])),
        ("l", json!("[a"), json!(["[a"])),
        ("li", json!("1, 2"), json!([1, 2])),
        ("li", json!(["1", 2.0]), json!([1, 2])),
        ("lc", json!([true, "one"]), json!(["on", "one"])),
        ("d", json!({"net0": "virtio"}), json!({"net0": "virtio"})),
        ("d", json!("{\"net0\": 1}"), json!({"net0": 1})),
        (
            "d",
            json!("{'net0': 'a', \"x\": None, 1: True}"),
            json!({"net0": "a", "x": null, "1": true}),
        ),
        (
            "d",
            json!(" {'a': (1, 2.5,), 'b': (3)}"),
            json!({"a": [1, 2.5], "b": 3}),
        ),
        (
            "d",
            json!("net0=virtio,net1=\"a b\" net2='x,y'"),
            json!({"net0": "virtio", "net1": "a b", "net2": "x,y"}),
        ),
        ("d", json!("a=b=c"), json!({"a": "b=c"})),
        ("d", json!({}), json!({})),
        (
            "disk",
            json!({"ds": 1, "size_gib": "20"}),
            json!({"datastore": "1", "gib": 20, "version": "2.0"}),
        ),
        (
            "disk",
            json!("datastore=a,gib=2"),
            json!({"datastore": "a", "gib": 2, "version": "2.0"}),
        ),
        (
            "disk",
            json!({"datastore": "a", "gib": "", "version": 1.2}),
            json!({"datastore": "a", "version": "1.2"}),
        ),
        (
            "disk",
            json!({"datastore": "a", "gib": null, "version": ""}),
            json!({"datastore": "a", "version": "2.0"}),
        ),
        (
            "disks",
            json!(["ds=a", {"datastore": "b"}]),
            json!([{"datastore": "a", "version": "2.0"}, {"datastore": "b", "version": "2.0"}]),
        ),
        (
            "disks",
            json!("[{'ds': 'a'}]"),
            json!([{"datastore": "a", "version": "2.0"}]),
        ),
        ("discard", json!(true), json!("on")),
        ("discard", json!("True"), json!("on")),
        ("discard", json!("on"), json!("on")),
        ("ic", json!("2"), json!(2)),
        ("ic", json!(4), json!(4)),
    ];
    for (name, raw, want) in table {
        let args = run(json!({name: raw})).unwrap_or_else(|e| panic!("{name} {raw}: {e:?}"));
        let canonical = SPEC.option(name).map_or(name, |o| o.name);
        assert_eq!(args.get(canonical), Some(&want), "{name} <- {raw}");
        assert!(args.given(canonical), "{name} <- {raw}");
    }
}

#[test]
fn what_counts_as_not_given() {
    for (name, raw) in [
        ("s", json!(null)),
        ("i", json!("")),
        ("i", json!(null)),
        ("f", json!("")),
        ("b", json!("")),
        ("p", json!("")),
        ("l", json!("")),
        ("d", json!("")),
        ("disk", json!("")),
        ("disks", json!(null)),
        ("discard", json!("")),
    ] {
        let args = run(json!({name: raw})).unwrap_or_else(|e| panic!("{name} {raw}: {e:?}"));
        assert_eq!(args.get(name), None, "{name} <- {raw}");
        assert!(!args.given(name), "{name} <- {raw}");
    }
    let args = run(json!({"_ansible_check_mode": true})).expect("accepted");
    assert_eq!(args.str("dflt"), Some("x"));
    assert!(!args.given("dflt"));
}

#[test]
fn what_is_refused_and_where() {
    let table = [
        ("i", json!("5x"), "i", "whole number"),
        ("i", json!("2.5"), "i", "whole number"),
        ("i", json!(2.5), "i", "whole number"),
        ("i", json!("0x10"), "i", "whole number"),
        ("f", json!("_1"), "f", "number"),
        ("i", json!("1e99"), "i", "whole number"),
        ("i", json!("9223372036854775808"), "i", "whole number"),
        ("i", json!([1]), "i", "whole number"),
        ("i", json!(5001), "i", "expected -10 to 5000, got `5001`"),
        ("f", json!("nan"), "f", "number"),
        ("f", json!("abc"), "f", "number"),
        ("b", json!("maybe"), "b", "true or false"),
        ("b", json!(2), "b", "true or false"),
        ("b", json!([]), "b", "true or false"),
        ("l", json!({"a": 1}), "l", "expected a list"),
        ("l", json!(["a", null]), "l[1]", "is null"),
        ("li", json!("1,x"), "li[1]", "whole number"),
        (
            "li",
            json!([1, 4095]),
            "li[1]",
            "expected 1 to 4094, got `4095`",
        ),
        ("lc", json!("one,tow"), "lc[1]", "did you mean `two`?"),
        ("d", json!("abc"), "d", "k=v"),
        ("d", json!("a=1 b"), "d", "part 2 of it has no `=`"),
        (
            "d",
            json!("{a: 1}"),
            "d",
            "neither JSON nor a Python literal",
        ),
        (
            "d",
            json!("{'a': f()}"),
            "d",
            "neither JSON nor a Python literal",
        ),
        ("d", json!([1]), "d", "expected a dictionary"),
        ("disk", json!({}), "disk.datastore", "required"),
        (
            "disk",
            json!({"datastore": "a", "gib": 0}),
            "disk.gib",
            "expected 1 to 1000, got `0`",
        ),
        (
            "disk",
            json!({"datastore": "a", "gibb": 1}),
            "disk.gibb",
            "did you mean `gib`?",
        ),
        (
            "disks",
            json!([{"ds": "a"}, {"ds": ""}]),
            "disks[1].datastore",
            "required",
        ),
        (
            "disks",
            json!([{"ds": "a", "version": "3"}]),
            "disks[0].version",
            "expected one of `1.2`, `2.0`",
        ),
        ("discard", json!("onn"), "discard", "did you mean `on`?"),
        (
            "discard",
            json!(false),
            "discard",
            "expected one of `ignore`, `on`",
        ),
        ("amb", json!(true), "amb", "expected one of"),
        ("ic", json!(3), "ic", "expected one of `2`, `4`, got `3`"),
        ("discrad", json!("on"), "discrad", "did you mean `discard`?"),
        ("zzzzzz", json!("on"), "zzzzzz", "trueplan spec demo"),
    ];
    for (name, raw, path, msg) in table {
        let errors = run(json!({name: raw})).expect_err(&format!("{name} <- {raw}"));
        assert_eq!(errors.len(), 1, "{name} <- {raw}: {errors:?}");
        assert_eq!(errors[0].path, path, "{name} <- {raw}");
        assert!(
            errors[0].msg.contains(msg),
            "{name} <- {raw}: {}",
            errors[0].msg
        );
    }
}

#[test]
fn name_and_alias_together() {
    let args = run(json!({"i": 5, "id": "5"})).expect("same value");
    assert_eq!(args.int("i"), Some(5));
    assert_eq!(args.warnings().len(), 1);
    let errors = run(json!({"i": 5, "id": 6})).expect_err("two values");
    assert!(errors[0].msg.contains("different values"), "{errors:?}");
    // An empty alias is not given.
    assert_eq!(
        run(json!({"i": 5, "id": ""}))
            .expect("one")
            .warnings()
            .len(),
        0
    );
}

#[test]
fn given_suboptions_are_asked_by_path() {
    let args =
        run(json!({"disk": {"ds": "a"}, "disks": [{"ds": "a", "version": "1.2"}]})).expect("fine");
    for (path, want) in [
        ("disk.datastore", true),
        ("disk.version", false),
        ("disks[0].version", true),
        ("disks[0].gib", false),
    ] {
        assert_eq!(args.given(path), want, "{path}");
    }
}
