//! The lab's property strings held to the recording of the real API (tests/fixtures/pve/property-strings.json).
use labsim::pve::{propstr, schema};
use serde_json::Value;

fn param(key: &str) -> Option<&'static Value> {
    let all = &schema::method("/nodes/{node}/qemu", "POST")?["parameters"]["properties"];
    if let Some(schema) = all.get(key) {
        return Some(schema);
    }
    let family = key.trim_end_matches(|c: char| c.is_ascii_digit());
    let index = &key[family.len()..];
    let schema = all.get(format!("{family}[n]"))?;
    let number: u64 = index
        .parse()
        .ok()
        .filter(|n: &u64| n.to_string() == index)?;
    (number <= schema["index_max"].as_u64()?).then_some(schema)
}

#[test]
fn verdicts_and_printed_forms_agree_with_the_recording() {
    let text = include_str!("../../fixtures/pve/property-strings.json");
    let recording: Value = serde_json::from_str(text).expect("the recording is JSON");
    let (mut total, mut agree) = (0, 0);
    for entry in recording["entries"].as_array().expect("entries") {
        let (key, input) = (
            entry["key"].as_str().expect("key"),
            entry["input"].as_str().expect("input"),
        );
        let wanted = match entry["create_schema"]["ok"] == true {
            true => Ok(()),
            false => Err(entry["create_schema"]["errors"][key]
                .as_str()
                .unwrap_or("")
                .to_string()),
        };
        let got = match param(key) {
            None => Err("property is not defined in schema and the schema does not allow additional properties".to_string()),
            Some(schema) => propstr::check_param(key, schema, input),
        };
        let mut fits = got == wanted;
        let mut why = format!("verdict {got:?}, recorded {wanted:?}");
        if let (Ok(()), Some(printed), Some(format)) = (
            &got,
            entry["printed"].as_str(),
            param(key).and_then(|s| s["format"].as_object()),
        ) {
            let ours = propstr::parse(format, input).map(|p| propstr::print(format, &p));
            // The drive parser converts old `bps` and drops what is no business of a format; guest::drive does that.
            if ours.as_deref() != Ok(printed) && !input.contains("bps") {
                fits = false;
                why = format!("printed {ours:?}, recorded {printed:?}");
            }
        }
        total += 1;
        agree += u32::from(fits);
        if !fits {
            println!("{key} {input:?}: {why}");
        }
    }
    println!("property-strings: {agree} of {total} agree");
    assert!(agree * 100 >= total * 98, "only {agree} of {total} agree");
}
