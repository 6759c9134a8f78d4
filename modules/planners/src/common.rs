//! What every module has: options and return keys of the pipeline itself.

use spec::{Kind, Opt, Ret};

/// Options of every writing module.
pub const WRITING: &[Opt] = &[Opt::str(
    "expect_plan",
    "The C(plan_id) of a check run that was looked at. Any other plan is refused, so that what was approved is what is done.",
)];

/// Return keys of every writing module.
pub const WRITING_RETURNS: &[Ret] = &[
    Ret::new("msg", Kind::Str, "always", "What was done, or why not."),
    Ret::list_of(
        "plan",
        Kind::Dict,
        "always",
        "The requests, in order, with their reasons; equal in check mode and in earnest. Secrets are masked.",
    ),
    Ret::new(
        "plan_id",
        Kind::Str,
        "always",
        "A hash of the plan, for O(expect_plan).",
    ),
    Ret::new(
        "error_kind",
        Kind::Str,
        "on failure",
        "One of invalid_args, unreachable, auth, permission, not_found, refused, api, conflict, task_failed, timeout, partial, internal.",
    ),
    Ret::list_of(
        "applied",
        Kind::Dict,
        "on failure after something was done",
        "Steps that were carried out.",
    ),
    Ret::list_of(
        "remaining",
        Kind::Dict,
        "on failure",
        "Steps that were not carried out.",
    ),
    Ret::list_of(
        "waited_for",
        Kind::Str,
        "when something was waited for",
        "Locks and running tasks that were waited for before planning.",
    ),
    Ret::list_of(
        "unverified",
        Kind::Str,
        "when something could not be looked at",
        "What the check cannot promise, since the account may not see it.",
    ),
    Ret::list_of(
        "replanned",
        Kind::Str,
        "when the plan was made anew",
        "Why: somebody else changed the same thing meanwhile, or an answer was lost.",
    ),
];
