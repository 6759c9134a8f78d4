//! `src/formats.json` is an extract of the recorded API schema. This test makes the extract again and compares.
//!
//! After a new recording: `PVE_FORMATS_WRITE=1 cargo test -p pve --test formats` writes it.
#![allow(clippy::disallowed_methods)]

use serde_json::{Map, Value};
use std::path::PathBuf;

const KEPT: &[&str] = &[
    "type",
    "format",
    "enum",
    "default",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "pattern",
    "optional",
    "alias",
    "keyAlias",
    "default_key",
    "requires",
    "index_max",
];
/// Name in the extract, path of the schema, method, parameters left out (they address the object, they are no option).
const TABLES: &[(&str, &str, &str, &[&str])] = &[
    ("guest", "/nodes/{node}/qemu", "POST", &["node", "vmid"]),
    (
        "sdn_zone",
        "/cluster/sdn/zones",
        "POST",
        &["zone", "type", "lock-token"],
    ),
    (
        "sdn_vnet",
        "/cluster/sdn/vnets",
        "POST",
        &["vnet", "lock-token"],
    ),
    (
        "sdn_subnet",
        "/cluster/sdn/vnets/{vnet}/subnets",
        "POST",
        &["vnet", "subnet", "lock-token"],
    ),
];

fn reduce(schema: &Value) -> Value {
    let mut out = Map::new();
    for name in KEPT {
        let Some(value) = schema.get(*name) else {
            continue;
        };
        let value = match (*name, value) {
            ("format", Value::Object(keys)) => {
                let mut names: Vec<_> = keys.keys().collect();
                names.sort();
                Value::Object(
                    names
                        .into_iter()
                        .map(|k| (k.clone(), reduce(&keys[k])))
                        .collect(),
                )
            }
            _ => value.clone(),
        };
        out.insert((*name).into(), value);
    }
    Value::Object(out)
}

fn extract(schema: &Value) -> String {
    let mut text = String::from("{\n");
    for (t, (table, path, method, left_out)) in TABLES.iter().enumerate() {
        let properties = schema["paths"][path][method]["parameters"]["properties"]
            .as_object()
            .expect(path);
        let mut names: Vec<_> = properties
            .keys()
            .filter(|n| !left_out.contains(&n.as_str()))
            .collect();
        names.sort();
        text += &format!("\"{table}\": {{\n");
        for (i, name) in names.iter().enumerate() {
            let comma = if i + 1 < names.len() { "," } else { "" };
            text += &format!(
                "{}: {}{comma}\n",
                Value::from(name.as_str()),
                reduce(&properties[*name])
            );
        }
        text += if t + 1 < TABLES.len() { "},\n" } else { "}\n" };
    }
    text + "}\n"
}

#[test]
fn the_embedded_formats_are_those_of_the_recorded_schema() {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let fixture = std::fs::read(here.join("../../tests/fixtures/pve/api-schema.json")).unwrap();
    let expected = extract(&serde_json::from_slice(&fixture).unwrap());
    let file = here.join("src/formats.json");
    if std::env::var_os("PVE_FORMATS_WRITE").is_some() {
        std::fs::write(&file, &expected).unwrap();
    }
    assert_eq!(
        std::fs::read_to_string(&file).unwrap(),
        expected,
        "run PVE_FORMATS_WRITE=1 cargo test -p pve --test formats"
    );
}
