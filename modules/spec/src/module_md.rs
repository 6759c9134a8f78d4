//! The generated `docs/modules/<name>.md`: the page of a module for people who read the repository in a browser.

use crate::opt::{Kind, ModuleSpec, Opt, Ret, Support};
use crate::shared::ERROR_KINDS;
use crate::spec_json::{default, typed};
use crate::{COLLECTION, module_py};
use serde_json::Value;

/// The text of `docs/modules/<name>.md`; `ours` says whether a name is a module of the collection, and has a page too.
pub fn module_md(spec: &ModuleSpec, ours: &dyn Fn(&str) -> bool) -> String {
    let page = Page { ours };
    let mut out = format!(
        "<!-- GENERATED from the argument table by `cargo xtask docs`; do not edit. -->\n# {COLLECTION}.{}\n\n{}.",
        spec.name,
        page.text(spec.short)
    );
    if let Some(peer) = spec.replaces {
        out.push_str(&format!(
            " It takes the tasks of `{peer}`: [what differs](../migrating-from-community-proxmox.md)."
        ));
    }
    out.push_str("\n\n");
    for paragraph in spec.doc {
        out.push_str(&format!("{}\n\n", page.text(paragraph)));
    }
    out.push_str(&page.attributes(spec));
    if !spec.requirements.is_empty() {
        let all: Vec<String> = spec.requirements.iter().map(|r| page.text(r)).collect();
        out.push_str(&format!("Needs where it runs: {}.\n\n", all.join("; ")));
    }
    out.push_str(&format!(
        "## Examples\n\n```yaml\n{}\n```\n\n",
        spec.examples.trim_matches('\n')
    ));
    out.push_str("## Options\n\n| option | type | default | what it is |\n|---|---|---|---|\n");
    for opt in spec.all() {
        page.option(opt, "", &mut out);
    }
    out.push('\n');
    out.push_str(&page.list("## Rules between options\n\n", &module_py::rules(spec)));
    let notes: Vec<String> = spec.notes.iter().map(|n| (*n).to_owned()).collect();
    out.push_str(&page.list("## Notes\n\n", &notes));
    out.push_str(&page.privileges(spec));
    out.push_str("## Returned\n\n| key | type | returned | what it is |\n|---|---|---|---|\n");
    for r in spec.returns.iter().flat_map(|group| group.iter()) {
        page.ret(r, "", &mut out);
    }
    out.push('\n');
    out.push_str(&page.errors(spec));
    out.push_str("[All modules](../../README.md#modules)\n");
    out
}

struct Page<'a> {
    ours: &'a dyn Fn(&str) -> bool,
}

impl Page<'_> {
    /// Ansible's markup as Markdown.
    fn text(&self, text: &str) -> String {
        let mut out = String::new();
        let mut rest = text;
        let mut before = ' ';
        let mut code = false;
        while let Some(c) = rest.chars().next() {
            if !code
                && !before.is_alphanumeric()
                && let Some((name, inner, after)) = markup(rest)
            {
                out.push_str(&self.marked(name, &inner));
                (rest, before) = (after, ')');
                continue;
            }
            code ^= c == '`';
            if !code && matches!(c, '<' | '*') {
                out.push('\\');
            }
            out.push(c);
            before = c;
            rest = &rest[c.len_utf8()..];
        }
        out
    }

    fn marked(&self, name: &str, inner: &str) -> String {
        let short = inner
            .strip_prefix(COLLECTION)
            .and_then(|r| r.strip_prefix('.'));
        match (name, short, inner.split_once(',')) {
            ("M", Some(module), _) if (self.ours)(module) => format!("[`{inner}`]({module}.md)"),
            ("B", ..) => format!("**{inner}**"),
            ("I", ..) => format!("*{inner}*"),
            ("U", ..) => format!("<{inner}>"),
            ("L", _, Some((text, url))) => format!("[{text}]({})", url.trim()),
            _ => format!("`{inner}`"),
        }
    }

    /// The lines of a text in one cell of a table.
    fn cell(&self, lines: &[String]) -> String {
        let all: Vec<String> = lines.iter().map(|l| self.text(l)).collect();
        all.join("<br>").replace('|', "\\|")
    }

    fn attributes(&self, spec: &ModuleSpec) -> String {
        let one = |s: Support| match s.details {
            "" => s.support.to_owned(),
            details => format!("{}: {}", s.support, self.text(details)),
        };
        let mut out = format!(
            "- Check mode: {}\n- Diff mode: {}\n- Unchanged when run again: {}\n",
            one(spec.check_mode),
            one(spec.diff_mode),
            one(spec.idempotent)
        );
        if !spec.action_groups.is_empty() {
            let groups: Vec<String> = spec
                .action_groups
                .iter()
                .map(|g| format!("`group/{COLLECTION}.{g}`"))
                .collect();
            out.push_str(&format!("- `module_defaults`: {}\n", groups.join(", ")));
        }
        out.push_str(&format!(
            "- Since version {} of the collection\n\n",
            spec.version_added
        ));
        out
    }

    fn option(&self, opt: &Opt, path: &str, out: &mut String) {
        let mut what = module_py::paragraphs(opt.doc);
        if !opt.choices.is_empty() {
            let all: Vec<String> = opt.choices.iter().map(|c| value(&typed(opt, c))).collect();
            what.push(format!("One of {}.", all.join(", ")));
        }
        if let Some((min, max)) = opt.range {
            what.push(format!("From `{min}` to `{max}`."));
        }
        if !opt.aliases.is_empty() {
            let all: Vec<String> = opt.aliases.iter().map(|a| format!("`{a}`")).collect();
            what.push(format!("Also written {}.", all.join(", ")));
        }
        if let Some(variable) = opt.env {
            what.push(format!("Environment: `{variable}`."));
        }
        if opt.secret {
            what.push("A secret: never shown.".to_owned());
        }
        if let Some(version) = opt.version_added {
            what.push(format!("Since version {version}."));
        }
        let default = match (opt.required, default(opt)) {
            (true, _) => "**required**".to_owned(),
            (_, Value::Null) => String::new(),
            (_, v) => value(&v).replace('|', "\\|"),
        };
        let name = format!("{path}{}", opt.name);
        out.push_str(&format!(
            "| `{name}` | {} | {default} | {} |\n",
            kind(opt.kind, opt.elements),
            self.cell(&what)
        ));
        for sub in opt.options {
            self.option(sub, &inside(&name, opt.kind), out);
        }
    }

    fn ret(&self, ret: &Ret, path: &str, out: &mut String) {
        let mut what = module_py::paragraphs(ret.doc);
        if let Some(sample) = ret
            .sample
            .and_then(|s| serde_json::from_str::<Value>(s).ok())
        {
            what.push(format!("Such as {}.", value(&sample)));
        }
        let name = format!("{path}{}", ret.name);
        out.push_str(&format!(
            "| `{name}` | {} | {} | {} |\n",
            kind(ret.kind, ret.elements),
            self.cell(&[ret.when.to_owned()]),
            self.cell(&what)
        ));
        for sub in ret.contains {
            self.ret(sub, &inside(&name, ret.kind), out);
        }
    }

    fn list(&self, title: &str, lines: &[String]) -> String {
        if lines.is_empty() {
            return String::new();
        }
        let all: String = lines
            .iter()
            .map(|l| format!("- {}\n", self.text(l)))
            .collect();
        format!("{title}{all}\n")
    }

    fn privileges(&self, spec: &ModuleSpec) -> String {
        if spec.privileges.is_empty() {
            return String::new();
        }
        let mut out = String::from("## Privileges\n\n| on | privilege | for |\n|---|---|---|\n");
        for (on, privilege, what) in spec.privileges {
            out.push_str(&format!(
                "| {} | {} | {} |\n",
                self.cell(&[(*on).to_owned()]),
                self.cell(&[(*privilege).to_owned()]),
                self.cell(&[(*what).to_owned()])
            ));
        }
        out.push_str(
            "\nRoles for the stages of the migration: [privileges.md](../privileges.md).\n\n",
        );
        out
    }

    fn errors(&self, spec: &ModuleSpec) -> String {
        let mut out = String::from(
            "## When it fails\n\n`msg` says what, to what, why, and the way out. `error_kind` is one of:\n\n| kind | what it means |\n|---|---|\n",
        );
        for (kind, what) in ERROR_KINDS {
            // What a module that sends nothing cannot meet.
            if !spec.writes && matches!(*kind, "conflict" | "task_failed") {
                continue;
            }
            out.push_str(&format!(
                "| [`{kind}`](../troubleshooting.md#{kind}) | {what} |\n"
            ));
        }
        out.push('\n');
        out
    }
}

/// What stands before the names of suboptions.
fn inside(name: &str, kind: Kind) -> String {
    match kind {
        Kind::List => format!("{name}[]."),
        _ => format!("{name}."),
    }
}

fn kind(kind: Kind, elements: Option<Kind>) -> String {
    match elements {
        Some(e) => format!("{kind} of {e}"),
        None => kind.to_string(),
    }
}

fn value(v: &Value) -> String {
    match v {
        Value::String(s) if s.is_empty() => "`\"\"`".to_owned(),
        Value::String(s) => format!("`{s}`"),
        other => format!("`{other}`"),
    }
}

/// A piece of markup at the start of a text: its name, what stands in the brackets, the rest.
fn markup(text: &str) -> Option<(&str, String, &str)> {
    let open = text.find('(')?;
    let name = &text[..open];
    if !matches!(
        name,
        "O" | "V" | "RV" | "E" | "C" | "M" | "B" | "I" | "U" | "L" | "P"
    ) {
        return None;
    }
    let mut inner = String::new();
    let mut chars = text[open + 1..].char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => inner.extend(chars.next().map(|(_, c)| c)),
            ')' => return Some((name, inner, &text[open + 1 + at + 1..])),
            c => inner.push(c),
        }
    }
    None
}
