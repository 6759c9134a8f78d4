//! A question that a virtual machine waits with.

use super::{Powerstate, leads_to, powered};
use crate::look::{Look, Stop};
use crate::vsphere_target as vt;
use plan::{Await, Fact, Plan, Tolerance};
use serde_json::{Value, json};
use vsphere::keys::VcKey;
use vsphere::value::{at, list, text};

/// The question with its choices, which the machine's fact does not hold.
fn key(moid: &str) -> VcKey {
    VcKey::Object {
        ty: "VirtualMachine".into(),
        moid: moid.to_owned(),
        paths: vec!["runtime.question".into()],
    }
}

/// Plans the answer, and gives the machine as it will be then; `None` if it waits with no question.
///
/// # Errors
/// A question without a fitting answer is refused, with its text.
pub fn plan(
    p: &Powerstate,
    look: &Look<'_>,
    vm: &Value,
    plan: &mut Plan,
) -> Result<Option<Value>, Stop> {
    let Some(asked) = text(vm, "question.text") else {
        return Ok(None);
    };
    let asked = asked.trim();
    if p.answers.is_empty() {
        return Err(p.refuse(format!(
            "it waits for an answer: \"{asked}\"; answer it in vCenter, or with question_answers"
        )));
    }
    let moid = text(vm, "moid").unwrap_or("");
    let fact = match look.fact(&key(moid))? {
        Fact::Known(v) => v,
        _ => return Err(p.refuse(format!("it waits for an answer: \"{asked}\", but the choices cannot be read; answer it in vCenter"))),
    };
    let q = at(fact, "runtime.question").unwrap_or(&Value::Null);
    let ids: Vec<&str> = list(q, "message")
        .iter()
        .filter_map(|m| text(m, "id"))
        .collect();
    let choices = list(q, "choice.choiceInfo");
    let meant = |id: &str| {
        ids.contains(&id) || (ids.is_empty() && text(q, "text").unwrap_or("").contains(id))
    };
    let choice = p
        .answers
        .iter()
        .filter(|(id, _)| meant(id))
        .find_map(|(_, label)| {
            choices.iter().find(|c| {
                ["label", "key", "summary"]
                    .iter()
                    .any(|k| text(c, k) == Some(label.as_str()))
            })
        });
    let Some(choice) = choice else {
        let labels: Vec<&str> = choices.iter().filter_map(|c| text(c, "label")).collect();
        return Err(p.refuse(format!(
            "it waits for an answer: \"{asked}\", and question_answers has none for it; its id is {}, its choices are {}",
            ids.join(", "),
            labels.join(", ")
        )));
    };
    // The operation that asked goes on once it has its answer.
    let asker = vt::running(vm)
        .into_iter()
        .find(|t| leads_to(text(t, "operation").unwrap_or("")) == Some(p.state.power()));
    let mut after = vt::with(vm, &[("question", Value::Null)]);
    let mut step = vt::step(
        vm,
        "AnswerVM",
        &[
            ("questionId", q["id"].clone()),
            ("answerChoice", choice["key"].clone()),
        ],
        format!(
            "answer its question with {}",
            text(choice, "label").unwrap_or("the choice given")
        ),
    )
    // Somebody else was faster.
    .tolerate(Tolerance::Replan("InvalidArgument"));
    if let Some(task) = asker {
        after = powered(&vt::without_task(&after, task), p.state.power());
        if p.timeout_s > 0 {
            step = step.wait(Await::Until {
                key: VcKey::VmState(moid.to_owned()).key(),
                pointer: "/power".into(),
                equals: json!(p.state.power()),
                timeout_s: p.timeout_s,
            });
        }
    }
    plan.push(step.effect(vt::put(&after)).effect(vt::put_state(&after)));
    Ok(Some(after))
}
