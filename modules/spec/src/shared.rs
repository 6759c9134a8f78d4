//! What every module has: options and results that the program itself gives, not one module (DESIGN.md section 6).

use crate::opt::{Kind, Opt, Ret};

/// The option of every writing module that binds a run to a plan seen before.
pub const EXPECT_PLAN: Opt = Opt::str(
    "expect_plan",
    "The RV(plan_id) of an earlier run, usually of one with C(--check). If the plan has become another one, the task fails \
     before anything is written.",
);

/// The kinds of failure, as they stand in `error_kind`, and what each means (docs/troubleshooting.md has the ways out).
pub const ERROR_KINDS: &[(&str, &str)] = &[
    (
        "invalid_args",
        "the task's arguments do not fit; nothing was asked of any server",
    ),
    (
        "unreachable",
        "no connection, no valid certificate, no binary",
    ),
    ("auth", "the sign-in was refused"),
    ("permission", "a privilege is missing"),
    (
        "not_found",
        "a named object is not there, or several have its name",
    ),
    ("refused", "the planner will not do it; nothing was written"),
    ("api", "the server said no"),
    ("conflict", "somebody else kept changing the same thing"),
    ("task_failed", "a task of the server ended badly"),
    ("timeout", "not in time; it may still be running"),
    ("internal", "a fault of the module"),
];

/// Results of every module.
pub const RETURNS: &[Ret] = &[
    Ret::new(
        "msg",
        Kind::Str,
        "always",
        "What was done, or why the task failed.",
    ),
    Ret::list_of(
        "unverified",
        Kind::Str,
        "when something could not be read",
        "Facts that could not be read and were therefore not checked.",
    ),
    Ret::new(
        "error_kind",
        Kind::Str,
        "on failure",
        "The kind of failure: V(invalid_args), V(unreachable), V(auth), V(permission), V(not_found), V(refused), V(api), \
         V(conflict), V(task_failed), V(timeout) or V(internal).",
    ),
];

/// Results of every module that writes, beside [`RETURNS`].
pub const RETURNS_WRITING: &[Ret] = &[
    Ret::list_of(
        "plan",
        Kind::Dict,
        "always",
        "The requests that are sent, in their order, each with its reason; the same in check mode.",
    ),
    Ret::new(
        "plan_id",
        Kind::Str,
        "always",
        "The hash of RV(plan), for O(expect_plan).",
    ),
    Ret::new(
        "would_change",
        Kind::Bool,
        "with C(plan_only)",
        "Whether something would be changed; C(changed) is then V(false), as nothing is.",
    ),
    Ret::new(
        "diff",
        Kind::Dict,
        "when run with C(--diff)",
        "The state before and after, read after execution.",
    )
    .contains(&[
        Ret::new("before", Kind::Dict, "always", "The state before."),
        Ret::new("after", Kind::Dict, "always", "The state after."),
    ]),
    Ret::list_of(
        "waited_for",
        Kind::Str,
        "when something was waited for",
        "Locks and running tasks that were waited for before planning.",
    ),
    Ret::list_of(
        "replanned",
        Kind::Str,
        "when the plan was made anew",
        "Why the plan was made anew during the run.",
    ),
    Ret::list_of(
        "applied",
        Kind::Dict,
        "on failure",
        "The steps of RV(plan) that had been done when the task failed.",
    ),
    Ret::list_of(
        "remaining",
        Kind::Dict,
        "on failure",
        "The steps of RV(plan) that had not been done when the task failed.",
    ),
];
