//! Faults by rule: the nth (or every) request of a route gets an error, a delay, or a lost connection.
use regex::Regex;
use serde_json::Value;
use std::sync::Mutex;

/// What happens to a request that a rule strikes.
#[derive(Clone, Debug, PartialEq)]
pub enum Do {
    /// This answer instead; the request is not executed.
    Answer {
        /// HTTP status.
        status: u16,
        /// Reason phrase.
        reason: Option<String>,
        /// The body: a JSON text, or the string itself.
        body: Vec<u8>,
    },
    /// Executed after that many milliseconds.
    Delay(u64),
    /// The connection is closed; the request is not executed.
    Drop,
    /// Executed, then the connection is closed without an answer.
    DropAfter,
    /// Executed, and answered that many milliseconds later: time to kill who asked.
    AnswerLate(u64),
}

struct Rule {
    side: Option<String>,
    method: Option<String>,
    path: Option<Regex>,
    /// Only what counts as a write.
    write: bool,
    nth: Option<u64>,
    every: u64,
    act: Do,
    seen: u64,
}

/// The rules in force.
#[derive(Default)]
pub struct Faults {
    rules: Mutex<Vec<Rule>>,
}

fn parse(v: &Value) -> Result<Rule, String> {
    let object = v.as_object().ok_or("a fault rule is a JSON object")?;
    for key in object.keys() {
        if ![
            "side", "method", "path", "write", "nth", "every", "do", "note",
        ]
        .contains(&key.as_str())
        {
            return Err(format!("fault rule: unknown key '{key}'"));
        }
    }
    let text = |k: &str| v[k].as_str().map(str::to_string);
    let act = match &v["do"] {
        Value::String(s) if s == "drop" => Do::Drop,
        Value::String(s) if s == "drop_after" => Do::DropAfter,
        d if d["delay_ms"].is_u64() => Do::Delay(d["delay_ms"].as_u64().unwrap_or(0)),
        d if d["answer_after_ms"].is_u64() => {
            Do::AnswerLate(d["answer_after_ms"].as_u64().unwrap_or(0))
        }
        d if d["status"].is_u64() => Do::Answer {
            status: d["status"]
                .as_u64()
                .and_then(|n| u16::try_from(n).ok())
                .filter(|n| (100..1000).contains(n))
                .ok_or("status")?,
            reason: d["reason"].as_str().map(str::to_string),
            body: match &d["body"] {
                Value::Null => Vec::new(),
                Value::String(s) => s.clone().into_bytes(),
                other => other.to_string().into_bytes(),
            },
        },
        other => return Err(format!("fault rule: cannot read do: {other}")),
    };
    let path = match text("path") {
        Some(p) => Some(Regex::new(&p).map_err(|e| format!("fault rule: {e}"))?),
        None => None,
    };
    Ok(Rule {
        side: text("side"),
        method: text("method").or_else(|| text("note")),
        path,
        write: v["write"] == true,
        nth: v["nth"].as_u64(),
        every: v["every"].as_u64().unwrap_or(1).max(1),
        act,
        seen: 0,
    })
}

impl Faults {
    /// Adds rules: a list (or one object). Errors: what in it cannot be read; then none is added.
    pub fn add(&self, list: &Value) -> Result<(), String> {
        let new = match list {
            Value::Null => Vec::new(),
            Value::Array(items) => items.iter().map(parse).collect::<Result<Vec<_>, _>>()?,
            one => vec![parse(one)?],
        };
        self.rules
            .lock()
            .unwrap_or_else(|e| e.into_inner())
            .extend(new);
        Ok(())
    }

    /// Removes all rules.
    pub fn clear(&self) {
        self.rules.lock().unwrap_or_else(|e| e.into_inner()).clear();
    }

    /// Counts a request against every rule that fits it; the first rule that strikes decides.
    /// `operation` is the SOAP method; a rule's `method` may name that or the HTTP method.
    pub fn strike(
        &self,
        side: &str,
        method: &str,
        operation: &str,
        path: &str,
        write: bool,
    ) -> Option<Do> {
        let mut hit = None;
        for rule in self
            .rules
            .lock()
            .unwrap_or_else(|e| e.into_inner())
            .iter_mut()
        {
            let fits = (write || !rule.write)
                && rule.side.as_deref().is_none_or(|s| s == side)
                && rule
                    .method
                    .as_deref()
                    .is_none_or(|m| m == method || (!operation.is_empty() && m == operation))
                && rule.path.as_ref().is_none_or(|p| p.is_match(path));
            if !fits {
                continue;
            }
            rule.seen += 1;
            let strikes = match rule.nth {
                Some(n) => rule.seen == n,
                None => rule.seen % rule.every == 0,
            };
            if strikes && hit.is_none() {
                hit = Some(rule.act.clone());
            }
        }
        hit
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn nth_every_and_operation() {
        let f = Faults::default();
        f.add(&json!([
            {"side": "pve", "method": "PUT", "path": "/config$", "nth": 2, "do": {"status": 500, "reason": "x"}},
            {"side": "vcenter", "method": "RelocateVM_Task", "every": 2, "do": "drop_after"},
            {"write": true, "path": "/any$", "nth": 2, "do": {"answer_after_ms": 5}}
        ]))
        .unwrap();
        let put = || f.strike("pve", "PUT", "", "/api2/json/nodes/a/qemu/1/config", true);
        assert_eq!(put(), None);
        assert!(matches!(put(), Some(Do::Answer { status: 500, .. })));
        assert_eq!(put(), None);
        let soap = |op| f.strike("vcenter", "POST", op, "/sdk", false);
        assert_eq!(soap("RelocateVM_Task"), None);
        assert_eq!(soap("Login"), None);
        assert_eq!(soap("RelocateVM_Task"), Some(Do::DropAfter));
        let any = |write| f.strike("pve", "GET", "", "/any", write);
        assert_eq!([any(true), any(false)], [None, None]);
        assert_eq!(any(true), Some(Do::AnswerLate(5)));
        assert!(f.add(&json!({"do": "explode"})).is_err());
        assert!(f.add(&json!({"nht": 1, "do": "drop"})).is_err());
    }
}
