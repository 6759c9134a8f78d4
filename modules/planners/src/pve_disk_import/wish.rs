//! From coerced arguments to what is asked for.

use super::source::{self, Source};
use super::{Create, Disk, Size, State, options};
use crate::pve_common::{self as common, Target, arg_error, text};
use crate::pve_drives::{COPIED_FORMATS, NO_COPIED_FORMAT};
use pve::size::parse_size;
use pve::{ConfigKey, PropError, PropString};
use spec::{ArgError, Args};

/// A key that names a disk.
fn disk_key(name: &str) -> Option<ConfigKey> {
    let key: ConfigKey = name.parse().ok()?;
    (key.is_drive() && key.as_str() == name && name != "cdrom").then_some(key)
}

fn key_name(args: &Args) -> &str {
    args.str("disk").unwrap_or_default()
}

const NO_DISK: &str =
    "is no disk; give ide0-3, scsi0-30, sata0-5, virtio0-15, efidisk0, tpmstate0 or unused0-255";

fn size_arg(args: &Args, state: State, errors: &mut Vec<ArgError>) -> Option<Size> {
    let given = args.str("size")?;
    let bare = given.bytes().all(|c| c.is_ascii_digit() || c == b'.');
    let size = match (state, given.strip_prefix('+')) {
        (State::Resized, Some(more)) => parse_size(more).map(Size::More),
        (State::Resized, None) => parse_size(given).map(Size::Bytes),
        // A bare number is GiB where a disk is made, as on the server.
        (_, None) if bare => given
            .parse::<f64>()
            .ok()
            .filter(|g| *g > 0.0)
            .map(|g| Size::Bytes(pve::size::new_disk_bytes(g))),
        (_, None) => parse_size(given).filter(|b| *b > 0).map(Size::Bytes),
        _ => None,
    };
    if size.is_none() {
        errors.push(arg_error(
            "size",
            Some(given.to_owned()),
            "is no size; give GiB for a new disk, or a number with K, M, G or T (and a + before it for state=resized)",
        ));
    }
    size
}

impl Disk {
    /// From coerced arguments.
    ///
    /// # Errors
    /// All that is wrong with them beyond the table.
    pub fn new(args: &Args) -> Result<Disk, Vec<ArgError>> {
        let mut errors = common::sign_in_errors(args);
        let mut warnings = Vec::new();
        let target = Target::from_args(args, &mut errors);
        let text = |n: &str| args.str(n).map(str::to_owned);
        let disk = text("disk").unwrap_or_default();
        let state = match args.str("state") {
            Some("absent") => State::Absent,
            Some("detached") => State::Detached,
            Some("moved") => State::Moved,
            Some("resized") => State::Resized,
            _ => State::Present,
        };
        let named = match disk_key(&disk).map(|k| PropString::empty(k.as_str())) {
            Some(Ok(p)) => Some(p),
            _ => {
                errors.push(arg_error("disk", Some(disk.clone()), NO_DISK));
                None
            }
        };
        let named = named.map(|p| named_options(args, p, &mut errors));
        let given: Vec<&str> = options::GEOMETRY
            .iter()
            .copied()
            .filter(|n| args.given(n))
            .collect();
        if !given.is_empty() {
            warnings.push(format!(
                "{} is not used: today's servers no longer store a disk's geometry",
                given.join(", ")
            ));
        }
        let size = size_arg(args, state, &mut errors);
        let mut source = |name: &str| {
            let s = args.str(name)?;
            match source::parse(s) {
                Ok(v) => Some(v),
                Err(e) => {
                    errors.push(arg_error(name, Some(s.to_owned()), e));
                    None
                }
            }
        };
        let import_from = source("import_from");
        let attach_from = match source("attach_from") {
            Some(Source::Path(p)) => {
                errors.push(arg_error(
                    "attach_from",
                    Some(p),
                    "is a path; name a volume of the guest, such as `nfs:20042/disk0.vmdk`",
                ));
                None
            }
            Some(Source::Volume(v)) => Some(v),
            None => None,
        };
        if args.str("import_from").is_some()
            && args.str("storage").is_none()
            && state == State::Present
        {
            errors.push(arg_error(
                "storage",
                None,
                "required and not given; say where the imported disk shall lie",
            ));
        }
        // Source: qemu-server, API2/Qemu.pm: an import into these needs efitype or version, which would have to be what the source is.
        if args.str("import_from").is_some() && ["efidisk0", "tpmstate0"].contains(&key_name(args))
        {
            errors.push(arg_error(
                "import_from",
                None,
                "makes no EFI disk or TPM state; attach a volume of the guest with attach_from, or make a new one with pve_vm_shell",
            ));
        }
        if args.str("iso_image").is_some() && args.str("media") != Some("cdrom") {
            errors.push(arg_error(
                "iso_image",
                text("iso_image"),
                "needs `media: cdrom`; give it too",
            ));
        }
        if state == State::Moved
            && ["target_storage", "target_vmid", "format"]
                .iter()
                .all(|n| args.str(n).is_none() && args.int(n).is_none())
        {
            errors.push(arg_error(
                "target_storage",
                None,
                "required and not given; say where the disk shall go: target_storage, format or target_vmid",
            ));
        }
        if state == State::Moved
            && args.int("target_vmid").is_none()
            && let Some(f) = text("format")
            && !COPIED_FORMATS.contains(&f.as_str())
        {
            errors.push(arg_error("format", Some(f), NO_COPIED_FORMAT));
        }
        let target_vmid = match args.int("target_vmid") {
            Some(_) => common::vmid_arg(args, "target_vmid", &mut errors),
            None => None,
        };
        // Source: qemu-server, API2/Qemu.pm, move_disk: only another guest can be given a disk.
        if state == State::Moved
            && let (Some(other), Some(Target::Vmid(own))) = (target_vmid, &target)
            && other == *own
        {
            errors.push(arg_error(
                "target_vmid",
                Some(other.to_string()),
                "is the guest that has the disk; name another guest, or target_storage",
            ));
        }
        let target_disk = text("target_disk");
        if let Some(t) = &target_disk
            && disk_key(t).is_none()
        {
            errors.push(arg_error("target_disk", target_disk.clone(), NO_DISK));
        }
        let timeout_s = args
            .int("timeout")
            .and_then(|t| u64::try_from(t).ok())
            .unwrap_or(600);
        match (errors.is_empty(), target, named) {
            (true, Some(target), Some(named)) => Ok(Disk {
                target,
                disk,
                state,
                create: match args.str("create") {
                    Some("disabled") => Create::Disabled,
                    Some("forced") => Create::Forced,
                    _ => Create::Regular,
                },
                named,
                unset: args.strs("unset").unwrap_or_default(),
                storage: text("storage"),
                size,
                format: text("format"),
                import_from,
                attach_from,
                iso_image: text("iso_image"),
                working_storage: text("import_working_storage"),
                source_bytes: args.int("source_bytes").and_then(|b| u64::try_from(b).ok()),
                source_pending: args.flag("source_pending"),
                single_file: args.str("source_layout").is_some(),
                target_storage: text("target_storage"),
                target_vmid,
                target_disk,
                delete_moved: args.bool("delete_moved"),
                bwlimit: args.int("bwlimit"),
                guard: text("guard_uuid"),
                timeout_s,
                wait: args.bool("wait").unwrap_or(true) && timeout_s > 0,
                warnings,
            }),
            _ => Err(errors),
        }
    }
}

/// The options that were given; what the bus does not have is an argument error, all at once.
fn named_options(args: &Args, mut p: PropString, errors: &mut Vec<ArgError>) -> PropString {
    for name in options::DRIVE {
        let Some(v) = args.get(name).filter(|_| args.given(name)) else {
            continue;
        };
        if let Err(e) = p.set(name, &text(v)) {
            errors.push(arg_error(name, Some(text(v)), e.to_string()));
        }
    }
    let mut whole = p.clone();
    let fits = whole.set("file", "any:1").and_then(|()| whole.check());
    if let Err(PropError::Invalid { problems, .. }) = fits {
        let bus = p.key().stem().to_owned();
        for problem in problems {
            // What belongs together may stand in the disk already.
            if problem.why.starts_with("needs ") {
                continue;
            }
            let way_out = match p.extra().contains_key(&problem.name) {
                true => format!("no disk on {bus} has it; leave it out, or take another bus"),
                false => problem.way_out,
            };
            errors.push(arg_error(
                &problem.name,
                Some(problem.value),
                format!("{}; {way_out}", problem.why),
            ));
        }
    }
    for u in args.strs("unset").unwrap_or_default() {
        if p.get(&u).is_some() {
            errors.push(arg_error(
                "unset",
                Some(u.clone()),
                format!("`{u}` is also given a value; leave one out"),
            ));
        }
    }
    p
}
