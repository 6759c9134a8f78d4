//! Options that modules of both sides share.

use spec::Opt;

/// Only plans; the program runs such a task as a dry run that leaves no trace, and adds `would_change`.
pub const PLAN_ONLY: Opt = Opt::bool(
    "plan_only",
    "Only plan: nothing is sent or remembered, RV(would_change) says what would be.",
)
.default("false");
