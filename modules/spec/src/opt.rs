//! Argument specs as data: one [`Opt`] per option, one [`ModuleSpec`] per Ansible module.

/// The type of an option, named as in Ansible's argument specs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A string; other scalars are converted as Python's `str()` does.
    Str,
    /// A 64-bit integer.
    Int,
    /// A finite floating point number.
    Float,
    /// A boolean; `yes`, `"true"` and `1` are accepted as in Ansible.
    Bool,
    /// A list; a string is split at commas.
    List,
    /// A dictionary; a string is read as JSON, Python literal or `k=v`.
    Dict,
    /// Any value, not converted.
    Raw,
    /// A file path; `~` and `$VARIABLE` are expanded.
    Path,
}

impl Kind {
    /// The name that Ansible uses in `type:` and `elements:`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Kind::Str => "str",
            Kind::Int => "int",
            Kind::Float => "float",
            Kind::Bool => "bool",
            Kind::List => "list",
            Kind::Dict => "dict",
            Kind::Raw => "raw",
            Kind::Path => "path",
        }
    }
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One option of a module or one suboption of a dictionary.
///
/// Built with the `const` constructors, so that a table reads as
/// `Opt::int("vmid", "Id of the guest.").alias(&["id"]).range(100, 999_999_999)`.
#[derive(Debug, Clone, Copy)]
pub struct Opt {
    /// The canonical name; parsed values are stored under it.
    pub name: &'static str,
    /// The type.
    pub kind: Kind,
    /// The type of the items of a list.
    pub elements: Option<Kind>,
    /// The values allowed (of each item, for a list), as text; empty: any.
    pub choices: &'static [&'static str],
    /// Other names that users may write.
    pub aliases: &'static [&'static str],
    /// The default as JSON text, such as `600`, `"present"`, `true`.
    pub default: Option<&'static str>,
    /// Must be given, by the task or by the environment variable.
    pub required: bool,
    /// Environment variable used when the option is not given.
    pub env: Option<&'static str>,
    /// The value is a secret (`no_log`): it is masked wherever it is shown.
    pub secret: bool,
    /// An empty string is a value, also where it would count as not given.
    pub keep_empty: bool,
    /// Documentation; every line (separated by `\n`) is a paragraph.
    pub doc: &'static str,
    /// Suboptions of a dictionary or of a list of dictionaries; empty: any keys.
    pub options: &'static [Opt],
    /// Smallest and largest number allowed (of each item, for a list).
    pub range: Option<(i64, i64)>,
    /// The version of the collection that introduced the option, if later than the module.
    pub version_added: Option<&'static str>,
}

impl Opt {
    /// An optional option of the given type.
    pub const fn new(name: &'static str, kind: Kind, doc: &'static str) -> Opt {
        Opt {
            name,
            kind,
            elements: None,
            choices: &[],
            aliases: &[],
            default: None,
            required: false,
            env: None,
            secret: false,
            keep_empty: false,
            doc,
            options: &[],
            range: None,
            version_added: None,
        }
    }

    /// A string.
    pub const fn str(name: &'static str, doc: &'static str) -> Opt {
        Opt::new(name, Kind::Str, doc)
    }

    /// An integer.
    pub const fn int(name: &'static str, doc: &'static str) -> Opt {
        Opt::new(name, Kind::Int, doc)
    }

    /// A floating point number.
    pub const fn float(name: &'static str, doc: &'static str) -> Opt {
        Opt::new(name, Kind::Float, doc)
    }

    /// A boolean.
    pub const fn bool(name: &'static str, doc: &'static str) -> Opt {
        Opt::new(name, Kind::Bool, doc)
    }

    /// A path of a file on the host where the module runs.
    pub const fn path(name: &'static str, doc: &'static str) -> Opt {
        Opt::new(name, Kind::Path, doc)
    }

    /// Any value, as it arrives.
    pub const fn raw(name: &'static str, doc: &'static str) -> Opt {
        Opt::new(name, Kind::Raw, doc)
    }

    /// A dictionary with the given suboptions; without any, all keys are allowed and kept as they are.
    pub const fn dict(name: &'static str, doc: &'static str, options: &'static [Opt]) -> Opt {
        let mut opt = Opt::new(name, Kind::Dict, doc);
        opt.options = options;
        opt
    }

    /// A list of items of one type.
    pub const fn list_of(name: &'static str, elements: Kind, doc: &'static str) -> Opt {
        let mut opt = Opt::new(name, Kind::List, doc);
        opt.elements = Some(elements);
        opt
    }

    /// A list of strings.
    pub const fn strs(name: &'static str, doc: &'static str) -> Opt {
        Opt::list_of(name, Kind::Str, doc)
    }

    /// A list of dictionaries with the given suboptions.
    pub const fn dicts(name: &'static str, doc: &'static str, options: &'static [Opt]) -> Opt {
        let mut opt = Opt::list_of(name, Kind::Dict, doc);
        opt.options = options;
        opt
    }

    /// Adds other names.
    pub const fn alias(mut self, aliases: &'static [&'static str]) -> Opt {
        self.aliases = aliases;
        self
    }

    /// Falls back to an environment variable.
    pub const fn env(mut self, variable: &'static str) -> Opt {
        self.env = Some(variable);
        self
    }

    /// Sets the default, as JSON text.
    pub const fn default(mut self, json: &'static str) -> Opt {
        self.default = Some(json);
        self
    }

    /// Makes the option mandatory.
    pub const fn required(mut self) -> Opt {
        self.required = true;
        self
    }

    /// Restricts the values.
    pub const fn choices(mut self, choices: &'static [&'static str]) -> Opt {
        self.choices = choices;
        self
    }

    /// Marks the value as a secret.
    pub const fn secret(mut self) -> Opt {
        self.secret = true;
        self
    }

    /// Lets an empty string be a value.
    pub const fn keep_empty(mut self) -> Opt {
        self.keep_empty = true;
        self
    }

    /// Restricts numbers to `min..=max`.
    pub const fn range(mut self, min: i64, max: i64) -> Opt {
        self.range = Some((min, max));
        self
    }

    /// Names the version that introduced the option.
    pub const fn since(mut self, version: &'static str) -> Opt {
        self.version_added = Some(version);
        self
    }

    /// Whether users may write this name.
    pub fn answers_to(&self, name: &str) -> bool {
        self.name == name || self.aliases.contains(&name)
    }

    /// Whether the option or any suboption is a secret.
    pub fn holds_secret(&self) -> bool {
        self.secret || self.options.iter().any(Opt::holds_secret)
    }
}

/// One value that a module returns.
#[derive(Debug, Clone, Copy)]
pub struct Ret {
    /// The key in the result.
    pub name: &'static str,
    /// The type.
    pub kind: Kind,
    /// Documentation; every line is a paragraph.
    pub doc: &'static str,
    /// When the key is there, such as `always` or `when --diff is given`.
    pub when: &'static str,
    /// The type of the items of a list.
    pub elements: Option<Kind>,
    /// An example as JSON text.
    pub sample: Option<&'static str>,
    /// The keys of a dictionary or of a list of dictionaries.
    pub contains: &'static [Ret],
}

impl Ret {
    /// A returned value.
    pub const fn new(name: &'static str, kind: Kind, when: &'static str, doc: &'static str) -> Ret {
        Ret {
            name,
            kind,
            doc,
            when,
            elements: None,
            sample: None,
            contains: &[],
        }
    }

    /// A returned list of items of one type.
    pub const fn list_of(
        name: &'static str,
        elements: Kind,
        when: &'static str,
        doc: &'static str,
    ) -> Ret {
        let mut ret = Ret::new(name, Kind::List, when, doc);
        ret.elements = Some(elements);
        ret
    }

    /// Adds an example, as JSON text.
    pub const fn sample(mut self, json: &'static str) -> Ret {
        self.sample = Some(json);
        self
    }

    /// Adds the keys of the dictionary or dictionaries.
    pub const fn contains(mut self, keys: &'static [Ret]) -> Ret {
        self.contains = keys;
        self
    }
}

/// A rule `(option, value, options needed, one of them is enough)`.
pub type RequiredIf = (&'static str, &'static str, &'static [&'static str], bool);

/// A privilege `(object or path on which it is needed, the privilege, for what)`.
pub type Privilege = (&'static str, &'static str, &'static str);

/// Groups of option names that a rule speaks of.
pub type Groups = &'static [&'static [&'static str]];

/// How far a module supports one attribute, such as check mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Support {
    /// `full`, `partial`, `none` or `N/A`.
    pub support: &'static str,
    /// What users should know about it; empty: nothing.
    pub details: &'static str,
}

impl Support {
    /// Supported without restriction.
    pub const FULL: Support = Support {
        support: "full",
        details: "",
    };
    /// Not applicable, for modules that only read.
    pub const READS: Support = Support {
        support: "N/A",
        details: "This action does not modify state.",
    };
    /// Not supported.
    pub const NONE: Support = Support {
        support: "none",
        details: "",
    };
}

/// Everything that is known about the arguments of one Ansible module.
///
/// Tables start from [`ModuleSpec::EMPTY`]: `ModuleSpec { name: "pve_nic", .., ..ModuleSpec::EMPTY }`.
#[derive(Debug, Clone, Copy)]
pub struct ModuleSpec {
    /// The module's name without the collection.
    pub name: &'static str,
    /// One sentence without a full stop.
    pub short: &'static str,
    /// The description, one paragraph an item.
    pub doc: &'static [&'static str],
    /// Groups of options: the module's own, and shared ones.
    pub options: &'static [&'static [Opt]],
    /// When an option has a value, others must be given.
    pub required_if: &'static [RequiredIf],
    /// Of each group at least one must be given.
    pub required_one_of: Groups,
    /// Of each group all or none must be given.
    pub required_together: Groups,
    /// Of each group at most one may be given.
    pub mutually_exclusive: Groups,
    /// `(option, options that must be given with it)`.
    pub required_by: &'static [(&'static str, &'static [&'static str])],
    /// The module can change something.
    pub writes: bool,
    /// Support of `--check`.
    pub check_mode: Support,
    /// Support of `--diff`.
    pub diff_mode: Support,
    /// Whether a second run changes nothing.
    pub idempotent: Support,
    /// What the module returns.
    pub returns: &'static [&'static [Ret]],
    /// YAML text of example tasks.
    pub examples: &'static str,
    /// Notes of the documentation.
    pub notes: &'static [&'static str],
    /// What whoever signs in must be allowed to do.
    pub privileges: &'static [Privilege],
    /// What the module needs where it runs.
    pub requirements: &'static [&'static str],
    /// Fully qualified name of the Python module that it replaces.
    pub replaces: Option<&'static str>,
    /// Names of the action groups that the module belongs to.
    pub action_groups: &'static [&'static str],
    /// The version of the collection that introduced the module.
    pub version_added: &'static str,
}

impl ModuleSpec {
    /// A writing module without options, the base for struct update.
    pub const EMPTY: ModuleSpec = ModuleSpec {
        name: "",
        short: "",
        doc: &[],
        options: &[],
        required_if: &[],
        required_one_of: &[],
        required_together: &[],
        mutually_exclusive: &[],
        required_by: &[],
        writes: true,
        check_mode: Support::FULL,
        diff_mode: Support::FULL,
        idempotent: Support::FULL,
        returns: &[],
        examples: "",
        notes: &[],
        privileges: &[],
        requirements: &[],
        replaces: None,
        action_groups: &[],
        version_added: "0.1.0",
    };

    /// A module that only reads, without options, the base for struct update.
    pub const READS: ModuleSpec = ModuleSpec {
        writes: false,
        check_mode: Support {
            support: "full",
            details: "This action does not modify state.",
        },
        diff_mode: Support::READS,
        ..ModuleSpec::EMPTY
    };

    /// All options, group after group.
    pub fn all(&self) -> impl Iterator<Item = &'static Opt> {
        self.options.iter().flat_map(|group| group.iter())
    }

    /// The option of that name or alias.
    pub fn option(&self, name: &str) -> Option<&'static Opt> {
        self.all().find(|o| o.answers_to(name))
    }
}
