//! Check, apply, again: what `--check` says will happen is what happens, and a second run changes nothing.

use super::call::{Call, Done};
use super::lab::Lab;
use serde_json::Value;

/// The three runs, which agree.
pub struct Triple {
    pub check: Done,
    pub apply: Done,
    pub again: Done,
}

impl Triple {
    /// It must have changed something, and have announced it.
    #[track_caller]
    pub fn changed(self) -> Triple {
        if !self.apply.changed() {
            self.apply.fail("it should have changed something");
        }
        self
    }

    /// It must have succeeded, with a change or without.
    #[track_caller]
    pub fn ok(self) -> Triple {
        if self.apply.is_failed() {
            self.apply.fail("it failed");
        }
        self
    }

    /// It must have found all as it is wanted.
    #[track_caller]
    pub fn unchanged(self) -> Triple {
        if self.apply.changed() || self.apply.is_failed() {
            self.apply.fail("it should have changed nothing");
        }
        self
    }
}

/// Runs a module three times and compares. A failure in check mode must be the same failure in earnest, without a write.
#[must_use = "say .changed(), .unchanged() or .ok(): three equal failures agree too"]
#[track_caller]
pub fn triple(lab: &Lab, module: &str, args: Value) -> Triple {
    triple_with(lab, &lab.call(module, args))
}

/// The same with a call that has been prepared.
#[must_use = "say .changed(), .unchanged() or .ok(): three equal failures agree too"]
#[track_caller]
pub fn triple_with(lab: &Lab, call: &Call) -> Triple {
    let (writes, files) = (lab.writes(), lab.files());
    let check = call.clone().check(true).run();
    if lab.writes() != writes {
        check.fail("check mode wrote to the lab");
    }
    if lab.files() != files {
        check.fail("check mode touched files");
    }
    let apply = call.clone().check(false).run();
    agree(&check, &apply);
    if check.is_failed() && lab.writes() != writes {
        apply.fail("check mode refused it, and yet it wrote");
    }
    if apply.warnings().iter().any(|w| w.contains("foreseen")) {
        apply.fail("the server did something else than foreseen");
    }
    let writes = lab.writes();
    let again = call.clone().check(false).run();
    if check.is_failed() {
        same(&apply, &again, "msg");
    } else {
        if again.is_failed() || again.changed() || again.plan() != "[]" {
            again.fail("a second run is not unchanged");
        }
        if lab.writes() != writes {
            again.fail("a second run wrote to the lab");
        }
        if again["diff"]["before"] != again["diff"]["after"] {
            again.fail("a second run shows a difference");
        }
    }
    Triple {
        check,
        apply,
        again,
    }
}

/// Plan, diff, status and message are the same.
#[track_caller]
pub fn agree(check: &Done, apply: &Done) {
    agree_but(check, apply, &[]);
}

/// The same without some keys of the result.
#[track_caller]
pub fn agree_but(check: &Done, apply: &Done, except: &[&str]) {
    for key in [
        "failed",
        "error_kind",
        "changed",
        "msg",
        "plan",
        "plan_id",
        "diff",
        "drift",
        "pending",
    ] {
        if !except.contains(&key) {
            same(check, apply, key);
        }
    }
}

#[track_caller]
fn same(a: &Done, b: &Done, key: &str) {
    // As text, since the order of keys counts too.
    let (x, y) = (a[key].to_string(), b[key].to_string());
    if x != y {
        b.fail(&format!(
            "`{key}` differs between the runs.\n   first:  {}\n   second: {}",
            a[key], b[key]
        ));
    }
}

/// Refused in check mode and in earnest with the same words, and nothing written. Gives the message.
#[track_caller]
pub fn refused(lab: &Lab, module: &str, args: Value, kind: &str) -> String {
    let t = triple(lab, module, args);
    t.check.failed(kind).msg().to_owned()
}
