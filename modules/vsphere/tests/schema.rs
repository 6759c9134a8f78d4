//! Keeps `src/schema.txt` equal to what the fixture says: `UPDATE_EXPECT=1 cargo test -p vsphere --test schema` writes it anew.
#![allow(clippy::disallowed_methods, reason = "a test reads its fixture")]

use serde_json::{Map, Value};

fn props(list: &Value) -> String {
    let mut out = String::new();
    for p in list.as_array().into_iter().flatten() {
        out.push(' ');
        out.push_str(p[0].as_str().expect("name"));
        out.push(':');
        out.push_str(p[1].as_str().expect("type"));
        if p[2] == Value::Bool(true) {
            out.push('?');
        }
    }
    out
}

fn head(tag: &str, name: &str, t: &Value) -> String {
    let s = |k: &str| t[k].as_str().unwrap_or("-").to_owned();
    format!(
        "{tag} {name} {} {}{}\n",
        s("vim"),
        s("base"),
        props(&t["props"])
    )
}

fn generate(fixture: &Value) -> String {
    let map = |k: &str| fixture[k].as_object().cloned().unwrap_or_else(Map::new);
    let mut out = String::new();
    for (name, t) in map("types") {
        out.push_str(&head("D", &name, &t));
    }
    for (name, t) in map("managed") {
        out.push_str(&head("M", &name, &t));
        for (method, m) in t["methods"].as_object().into_iter().flatten() {
            out.push_str(&format!(
                "+ {method} {}{}\n",
                m["result"].as_str().unwrap_or("NoneType"),
                props(&m["params"])
            ));
        }
    }
    for (name, t) in map("enums") {
        out.push_str(&head("E", &name, &t));
    }
    out
}

#[test]
fn schema_txt_is_current() {
    let here = env!("CARGO_MANIFEST_DIR");
    let fixture = std::fs::read_to_string(format!(
        "{here}/../../tests/fixtures/vsphere/vim-types.json"
    ))
    .expect("fixture");
    let wanted = generate(&serde_json::from_str(&fixture).expect("JSON"));
    let path = format!("{here}/src/schema.txt");
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(&path, &wanted).expect("write");
    }
    let is = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        is == wanted,
        "src/schema.txt is stale: UPDATE_EXPECT=1 cargo test -p vsphere --test schema"
    );
    assert_eq!(
        vsphere::schema::schema().len(),
        wanted.lines().filter(|l| !l.starts_with('+')).count()
    );
}
