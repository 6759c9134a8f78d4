//! `trueplan prop` against the recording of the real parser and printer (tests/fixtures/pve/property-strings.json), one process an entry. All
//! of them with TRUEPLAN_TEST_FULL=1, else every third: modules/pve/tests/property_strings.rs judges all of them without processes.

use serde_json::Value;
use std::process::Command;

/// Only the server's file cpu-models.conf knows whether a custom CPU type exists.
const EXCEPTIONS: &[(&str, &str)] = &[("cpu", "custom-foo")];

#[test]
fn the_binary_reads_and_prints_as_the_server_does() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/fixtures/pve/property-strings.json"
    );
    let all: Value = serde_json::from_slice(&std::fs::read(path).expect(path)).expect("JSON");
    let entries = all["entries"].as_array().expect("entries");
    assert!(entries.len() > 500);
    let (mut agree, mut differ) = (0, vec![]);
    let step = if crate::support::full() { 1 } else { 3 };
    let judged: Vec<&Value> = entries.iter().step_by(step).collect();
    for e in &judged {
        let (key, input) = (
            e["key"].as_str().expect("a key"),
            e["input"].as_str().expect("an input"),
        );
        if EXCEPTIONS.contains(&(key, input)) {
            continue;
        }
        let refused = e["create_schema"]["ok"] != true
            || !e["parse_error"].is_null()
            || e["parse_returns_undef"] == true;
        let out = Command::new(env!("CARGO_BIN_EXE_trueplan"))
            .args(["prop", "--", key, input])
            .output()
            .expect("it runs");
        let ours: Value = serde_json::from_slice(&out.stdout).unwrap_or(Value::Null);
        let same = if refused {
            !out.status.success() && ours["error"].as_str().is_some_and(|m| !m.is_empty())
        } else {
            out.status.success()
                && ["parsed", "printed"]
                    .iter()
                    .all(|f| e.get(f).is_none_or(|theirs| ours[f] == *theirs))
        };
        if same {
            agree += 1;
        } else {
            differ.push(format!(
                "{key} {input:?}: we say {ours} {}",
                String::from_utf8_lossy(&out.stderr)
            ));
        }
    }
    println!(
        "trueplan prop: {agree} of {} recorded values read, printed or refused as the server does, {} set apart",
        judged.len(),
        EXCEPTIONS.len()
    );
    assert!(differ.is_empty(), "{}", differ.join("\n"));
}
