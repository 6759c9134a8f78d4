//! What is generated from a table: `UPDATE_EXPECT=1 cargo test -p spec --test documents` rewrites the goldens.
//!
//! The module golden was read by `ansible-doc` of core 2.17, 2.19 and 2.21 and checked by `ansible-test sanity` when last changed.
#![allow(clippy::disallowed_methods)] // A test reads its goldens.

use spec::{Kind, ModuleSpec, Opt, Ret, module_py, shared, spec_json};
use std::path::Path;

const DISK: &[Opt] = &[
    Opt::str(
        "datastore",
        "Where the disk goes: a name, or O(disks[].key).",
    )
    .required(),
    Opt::int("key", "The device key."),
    Opt::str("mode", "The mode.")
        .choices(&["on", "off", "2.0"])
        .default("\"on\""),
];

const OWN: &[Opt] = &[
    Opt::int("vmid", "Id of the guest.\nIt's found \"wherever\" it lives: on any node; a very long paragraph follows here so that the line must be \
        broken at least once, and perhaps even twice: it speaks of C(--check), of \\backslashes and of #hashes - like this one.")
        .alias(&["id"])
        .range(100, 999_999_999),
    Opt::str("name", "Name of the guest."),
    Opt::str("state", "Wanted state.").choices(&["present", "absent"]).default("\"present\""),
    Opt::list_of("trunks", Kind::Int, "VLAN ids.").range(1, 4094).choices(&["1", "2"]),
    Opt::strs("tags", "Tags.").default("[\"a\", \"yes\"]"),
    Opt::bool("wait", "Whether to wait.").default("true").since("0.2.0"),
    Opt::int("timeout", "Seconds to wait.").default("600"),
    Opt::float("rate", "Rate limit in MB/s.").default("1.5"),
    Opt::path("ca_path", "File with certificates."),
    Opt::raw("any", "Anything."),
    Opt::dict("net", "Network devices.", &[]),
    Opt::dicts("disks", "Disks.", DISK),
    shared::EXPECT_PLAN,
];

const LOGIN: &[Opt] = &[
    Opt::str("api_host", "Host of the API.")
        .env("DEMO_HOST")
        .required(),
    Opt::str("api_password", "Password.")
        .env("DEMO_PASSWORD")
        .secret(),
];

const SPEC: ModuleSpec = ModuleSpec {
    name: "demo",
    short: "Manage demonstrations",
    doc: &["Shows what is generated.", "Two: paragraphs."],
    options: &[OWN, LOGIN],
    required_if: &[
        ("state", "present", &["tags"], false),
        ("wait", "true", &["timeout", "rate"], true),
    ],
    required_one_of: &[&["vmid", "name"]],
    required_together: &[&["net", "disks"]],
    mutually_exclusive: &[&["vmid", "name"]],
    required_by: &[("rate", &["timeout"])],
    returns: &[
        shared::RETURNS,
        shared::RETURNS_WRITING,
        &[
            Ret::new("vmid", Kind::Int, "on success", "Id of the guest.").sample("100"),
            Ret::list_of("disks", Kind::Dict, "always", "The disks.")
                .contains(&[Ret::new("key", Kind::Int, "always", "The key.")])
                .sample("[{\"key\": 2000}]"),
        ],
    ],
    examples: "- name: Show it\n  trueplan.virt.demo:\n    api_host: pve1\n    vmid: 100\n",
    notes: &["A note."],
    requirements: &["A server."],
    replaces: Some("community.proxmox.proxmox_nic"),
    action_groups: &["pve", "proxmox"],
    ..ModuleSpec::EMPTY
};

fn golden(name: &str, got: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name);
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(&path, got).expect("golden written");
    }
    let want = std::fs::read_to_string(&path).expect("golden is there");
    for (n, (got, want)) in got.lines().zip(want.lines()).enumerate() {
        assert_eq!(got, want, "{name} line {}", n + 1);
    }
    assert_eq!(got.len(), want.len(), "{name}");
}

#[test]
fn the_module_file() {
    assert_eq!(spec::lint(&SPEC), Vec::<String>::new());
    let text = module_py(&SPEC, "0.1.0");
    assert!(
        text.lines()
            .all(|l| l.chars().count() <= 160 && l.trim_end() == l)
    );
    golden("demo.py", &text);
}

#[test]
fn the_spec_as_json() {
    let text = serde_json::to_string_pretty(&spec_json(&SPEC)).expect("JSON");
    golden("demo.json", &(text + "\n"));
}

#[test]
fn lint_finds_contradictions() {
    const BAD: ModuleSpec = ModuleSpec {
        name: "bad",
        short: "Bad.",
        doc: &["Bad."],
        options: &[&[
            Opt::int("a", "A.").default("\"5\"").alias(&["b"]),
            Opt::int("b", "B.").default("7").range(1, 5),
            Opt::str("c", "").default("present"),
            Opt::str("d", "D.").choices(&["x"]).default("\"y\""),
            Opt::str("e", "E.").required().default("\"y\""),
            Opt::new("f", Kind::List, "F."),
            Opt::dict("g", "G.", &[Opt::bool("h", "H.").default("\"yes\"")]),
        ]],
        required_one_of: &[&["a", "zz"]],
        required_if: &[("d", "y", &["a"], false)],
        ..ModuleSpec::EMPTY
    };
    assert_eq!(
        spec::lint(&BAD),
        [
            "a: the default is not of type int",
            "b: the name `b` is used twice",
            "default of b: expected 1 to 5, got `7`",
            "c: no documentation",
            "c: the default is not JSON: expected value at line 1 column 1",
            "default of d: expected one of `x`, got `y`",
            "e: required, yet it has a default",
            "f: elements belong to lists, and lists need them",
            "g.h: the default is not of type bool",
            "required_if: `d` is never `y`",
            "a rule names `zz`, which is no option",
            "short ends with a full stop",
        ]
    );
}
