# Copyright (c) 2026, the trueplan authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The inventory of a vCenter's virtual machines. The binary asks the server; this only makes hosts of the answer."""

from __future__ import annotations

DOCUMENTATION = r"""
name: vms
short_description: Virtual machines of a VMware vCenter or ESXi host
version_added: 0.1.0
author:
  - The trueplan authors (@trueplan)
description:
  - Makes a host of every virtual machine, with the properties that are asked for as its variables.
  - Takes the options and the file names of P(vmware.vmware.vms#inventory) and needs no Python package.
  - One query reads all machines. Machines of one name all get the suffix C(_MOID), so that C(--limit) never changes its meaning.
  - The file's name must end in V(vms.yml), V(vms.yaml), V(vmware_vms.yml) or V(vmware_vms.yaml).
extends_documentation_fragment:
  - ansible.builtin.constructed
  - ansible.builtin.inventory_cache
options:
  plugin:
    description: Names this plugin.
    type: str
    required: true
    choices: [trueplan.virt.vms]
  hostname:
    description: Name or address of the vCenter or ESXi host. May be a template.
    type: str
    env:
      - name: VMWARE_HOST
  username:
    description: Who signs in. May be a template.
    type: str
    aliases: [user, admin]
    env:
      - name: VMWARE_USER
  password:
    description: Their password. May be a template or vaulted.
    type: str
    aliases: [pass, pwd]
    env:
      - name: VMWARE_PASSWORD
  port:
    description: Port of the API.
    type: int
    default: 443
    env:
      - name: VMWARE_PORT
  validate_certs:
    description: Check the server's certificate.
    type: bool
    default: true
    env:
      - name: VMWARE_VALIDATE_CERTS
  ca_path:
    description: File with the certificates of the authorities to trust, in PEM format.
    type: path
    env:
      - name: VMWARE_CA_PATH
  thumbprint:
    description: SHA-1 or SHA-256 thumbprint of the server's certificate; pins it, also with O(validate_certs=false).
    type: str
    env:
      - name: VMWARE_THUMBPRINT
  api_timeout:
    description: Seconds for a connection and for a short answer.
    type: int
    env:
      - name: VMWARE_API_TIMEOUT
  proxy_host:
    description: HTTP proxy.
    type: str
    env:
      - name: VMWARE_PROXY_HOST
  proxy_port:
    description: Port of the HTTP proxy.
    type: int
    env:
      - name: VMWARE_PROXY_PORT
  proxy_protocol:
    description: Accepted for the sake of the peer, whose REST client uses it; not needed here.
    type: str
    default: https
    choices: [http, https]
    aliases: [protocol]
  properties:
    description:
      - Properties to read, as dotted paths of the vSphere API. V(all) reads every property.
      - Some are always read, since host names and default groups need them.
    type: list
    elements: str
    default:
      - name
      - config.cpuHotAddEnabled
      - config.cpuHotRemoveEnabled
      - config.instanceUuid
      - config.hardware.numCPU
      - config.template
      - config.name
      - config.uuid
      - guest.hostName
      - guest.ipAddress
      - guest.guestId
      - guest.guestState
      - runtime.maxMemoryUsage
      - customValue
      - summary.runtime.powerState
      - config.guestId
  hostnames:
    description: Expressions, of which the first that gives a name is the host's name.
    type: list
    elements: str
    default: ['name']
  gather_compute_objects:
    description: Add C(cluster) and C(esxi_host), each with C(name) and C(moid).
    type: bool
    default: false
  gather_path:
    description: Add C(path), the machine's folder.
    type: bool
    default: true
  gather_tags:
    description: Not supported; tags are not part of the SOAP API.
    type: bool
    default: false
  set_ansible_host:
    description: Set C(ansible_host) to the address that VMware Tools report.
    type: bool
    default: true
  search_paths:
    description: Read only machines below these inventory paths.
    type: list
    elements: str
    default: []
  group_by_paths:
    description: Make a group of every folder, nested as the folders are.
    type: bool
    default: false
  group_by_paths_prefix:
    description: Prefix of the names of these groups.
    type: str
    default: ''
  filter_expressions:
    description: A machine for which any of these expressions is true is left out.
    type: list
    elements: str
    default: []
    aliases: [filters]
  keyed_groups:
    description: See the constructed plugin.
    type: list
    elements: dict
    default:
      - key: config.guestId
        separator: ''
      - key: summary.runtime.powerState
        separator: ''
  flatten_nested_properties:
    description: Name variables by their dotted path instead of nesting them.
    type: bool
    default: false
  sanitize_property_names:
    description: Turn names of variables into snake_case.
    type: bool
    default: false
  rename_reserved_variables:
    description: Prefix variables whose names Ansible reserves, such as C(name), with C(vmware_).
    type: bool
    default: false
"""

EXAMPLES = r"""
# vcenter.vms.yml; address and credentials from VMWARE_HOST, VMWARE_USER, VMWARE_PASSWORD
plugin: trueplan.virt.vms
properties:
  - name
  - config.guestId
  - config.template
  - config.hardware.device
gather_compute_objects: true
filter_expressions:
  - config.template
compose:
  vm_moid: moid
"""

import gc
import json
import os
import platform
import re
import subprocess
import tempfile

from ansible.errors import AnsibleError, AnsibleParserError
from ansible.plugins.inventory import BaseInventoryPlugin, Cacheable, Constructable
from ansible.utils.unsafe_proxy import wrap_var

FILE_NAMES = ("vms.yml", "vms.yaml", "vmware_vms.yml", "vmware_vms.yaml")
CONNECTION = (
    "hostname", "username", "password", "port", "validate_certs", "ca_path", "thumbprint", "api_timeout", "proxy_host", "proxy_port",
)
QUERY = ("properties", "gather_compute_objects", "gather_path", "search_paths")
# Since ansible-core 2.19 a text is no template unless it is tagged as one, and wrapping is but a copy.
UNSAFE_IS_A_TYPE = wrap_var("").__class__ is not str
# The machines of the stream are parsed so many bytes at a time: while the binary asks for the next ones, and yet together, since the
# parser shares the names of members within one text only.
BATCH = 1 << 20
# Names that a Jinja expression finds in a dictionary's type before its keys.
METHODS = frozenset(dir(dict))
PATH = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*\Z", re.ASCII)
RESERVED = ("name", "hosts", "vars", "environment", "tags", "roles", "port", "connection", "timeout", "register", "no_log")


def _binary():
    """The binary for this machine. As for modules, that for x86_64 lies at the top and others in a folder of their own."""
    folder = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "bin")
    machine = {"amd64": "x86_64", "arm64": "aarch64"}.get(platform.machine(), platform.machine())
    binary = os.path.join(folder, "trueplan") if machine == "x86_64" else os.path.join(folder, machine, "trueplan")
    if platform.system() == "Linux" and os.path.isfile(binary):
        return binary
    shipped = sorted(
        "Linux " + arch for arch, path in (("x86_64", "trueplan"), ("aarch64", "aarch64/trueplan")) if os.path.isfile(os.path.join(folder, path))
    )
    if platform.system() == "Linux" and not shipped:
        raise AnsibleError(
            "the native binary is missing at %s; install the collection from its tarball, or build it with `cargo xtask dist`" % binary
        )
    raise AnsibleError(
        "this collection has no binary for %s %s, only for %s; run Ansible on such a machine or in a container of it"
        % (platform.system(), machine, ", ".join(shipped) or "none")
    )


class InventoryModule(BaseInventoryPlugin, Constructable, Cacheable):
    """Hosts from virtual machines."""

    NAME = "trueplan.virt.vms"

    def verify_file(self, path):
        return super().verify_file(path) and path.endswith(FILE_NAMES)

    def parse(self, inventory, loader, path, cache=True):
        # Set but empty counts as unset, as in the modules: AWX sets what a credential leaves empty, and an empty
        # VMWARE_VALIDATE_CERTS must not come to mean false.
        for name in [n for n, value in os.environ.items() if n.startswith("VMWARE_") and not value.strip()]:
            del os.environ[name]
        super().parse(inventory, loader, path, cache=cache)
        self._read_config_data(path)
        if self.get_option("gather_tags"):
            raise AnsibleParserError("gather_tags is not supported: vSphere tags are not part of the SOAP API; leave it off")

        if gc.get_freeze_count():
            # Read again (meta: refresh_inventory): what an earlier load took out of the collector's sight may be garbage by now.
            gc.unfreeze()
            gc.collect()
        collects = gc.isenabled()
        gc.disable()
        try:
            self._load(path, cache)
        finally:
            # What was loaded lives until it is read again. The collector would walk through it again and again, here and in each process that
            # Ansible forks for a task, which then copies the pages that it touches.
            gc.freeze()
            if collects:
                gc.enable()

    def _load(self, path, cache):
        key = self.get_cache_key(path)
        use = cache and self.get_option("cache")
        answer = None
        if use:
            try:
                answer = self._cache[key]
            except KeyError:
                pass
        if answer is None:
            answer = self._ask()
            if self.get_option("cache"):
                self._cache[key] = answer
        for warning in answer.get("warnings", []):
            self.display.warning(warning)
        self._populate(answer["vms"])

    def _ask(self):
        binary = _binary()
        options = {name: self.get_option(name) for name in QUERY}
        for name in CONNECTION:
            value = self.get_option(name)
            if isinstance(value, str) and self.templar.is_template(value):
                value = self.templar.template(value)
            options[name] = None if value is None else value if isinstance(value, (bool, int)) else str(value)
        # Its last words go to a file, so that nobody waits for anybody.
        with tempfile.TemporaryFile() as words:
            try:
                run = subprocess.Popen([binary, "inventory"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=words)
            except OSError as e:
                raise AnsibleError("the native binary %s cannot run here: %s" % (binary, e)) from e
            with run:
                try:
                    with run.stdin as pipe:
                        pipe.write(json.dumps(options).encode())
                except BrokenPipeError:
                    pass  # It ended early, and says why below.
                try:
                    answer = _machines(run.stdout)
                except ValueError:
                    answer = None
            if run.returncode != 0 or answer is None:
                # The answer may have broken off in the middle; the reason stands as JSON on standard error.
                words.seek(0)
                raise AnsibleError(_reason(words.read()) or "the native binary %s ended with %s" % (binary, run.returncode))
        return answer

    def _populate(self, machines):
        strict = self.get_option("strict")
        filters = self.get_option("filter_expressions")
        kept = []
        for variables in machines:
            if UNSAFE_IS_A_TYPE:
                variables = wrap_var(variables)
            if any(self._is_true(f, variables, strict) for f in filters):
                continue
            kept.append((self._name_of(variables), variables))

        names = {}
        for name, variables in kept:
            names.setdefault(name, []).append(variables["moid"])
        known = set(self.inventory.hosts)
        for name, variables in kept:
            if len(names[name]) > 1:
                host = "%s_%s" % (name, variables["moid"])
            else:
                host = name
            if host in known:
                raise AnsibleParserError(
                    "host %s is already in the inventory, from another source; give one of them another name with `hostnames`" % host
                )
            self._add(host, variables, strict)
        for name, moids in sorted(names.items()):
            if len(moids) > 1:
                self.display.warning(
                    "%d machines are called %s; their hosts are %s"
                    % (len(moids), name, ", ".join(sorted("%s_%s" % (name, m) for m in moids)))
                )

    def _compose(self, template, variables, *args, **kwargs):
        """The value of an expression; a plain path, such as config.guestId, is looked up without a Jinja compiler."""
        if not (args or kwargs or self._uses_extra_vars()) and isinstance(template, str) and PATH.match(template):
            value = variables
            for part in template.split("."):
                if not isinstance(value, dict) or part not in value or part in METHODS:
                    break
                value = value[part]
            else:
                return value
        return super()._compose(template, variables, *args, **kwargs)

    def _uses_extra_vars(self):
        """Whether variables of the command line may stand for those of a machine."""
        try:
            return self.get_option("use_extra_vars")
        except (KeyError, AnsibleError):
            return False

    def _is_true(self, expression, variables, strict):
        try:
            return bool(self._compose(expression, variables))
        except Exception as e:
            if strict:
                raise AnsibleError("filter_expressions: %s: %s" % (expression, e)) from e
            return False

    def _name_of(self, variables):
        problems = []
        for preference in self.get_option("hostnames"):
            try:
                name = self._compose(preference, variables)
                if name:
                    return str(name)
                problems.append("%s: empty" % preference)
            except Exception as e:
                problems.append("%s: %s" % (preference, e))
        raise AnsibleParserError("no host name for machine %s: %s" % (variables.get("moid"), "; ".join(problems)))

    def _add(self, host, variables, strict):
        self.inventory.add_host(host)
        if self.get_option("set_ansible_host"):
            address = ((variables.get("guest") or {}).get("ipAddress")) or ""
            self.inventory.set_variable(host, "ansible_host", address)
        # Since ansible-core 2.19 the inventory that a plugin sees copies every value and tags each with its origin, numbers too, which
        # takes most of the time and memory of a large inventory. These come from JSON, are ours alone and are not trusted: no copy is needed.
        inventory = getattr(self.inventory, "__wrapped__", self.inventory)
        for key, value in self._renamed(variables).items():
            inventory.set_variable(host, key, value)
        self._set_composite_vars(self.get_option("compose"), variables, host, strict=strict)
        self._add_host_to_composed_groups(self.get_option("groups"), variables, host, strict=strict)
        self._add_host_to_keyed_groups(self.get_option("keyed_groups"), variables, host, strict=strict)
        if self.get_option("group_by_paths"):
            self._add_to_path_groups(host, variables.get("path"))

    def _renamed(self, variables):
        if self.get_option("flatten_nested_properties"):
            variables = dict(_flat(variables, ""))
        if self.get_option("sanitize_property_names"):
            variables = _sanitized(variables)
        if self.get_option("rename_reserved_variables"):
            variables = {("vmware_" + k if k in RESERVED else k): v for k, v in variables.items()}
        return variables

    def _add_to_path_groups(self, host, path):
        parent = None
        parts = [p for p in str(path or "").split("/") if p]
        prefix = self.get_option("group_by_paths_prefix")
        above = [prefix] if prefix else []
        for n in range(len(parts)):
            name = self._sanitize_group_name("_".join(above + parts[: n + 1]))
            group = self.inventory.add_group(name)
            if parent and parent != group:
                self.inventory.add_child(parent, group)
            parent = group
        if parent:
            self.inventory.add_child(parent, host)


def _machines(lines):
    """The answer of the binary: a JSON object, written so that each machine has a line of its own between its first and its last one."""
    vms, batch, size = [], [], 0
    first = last = b""
    for line in lines:
        if not first:
            first = line
        elif line.startswith(b"{"):
            batch.append(line.rstrip(b",\n"))
            size += len(line)
            if size >= BATCH:
                vms += json.loads(b"[%s]" % b",".join(batch))
                batch, size = [], 0
        else:
            last = line
    vms += json.loads(b"[%s]" % b",".join(batch))
    answer = json.loads(first + last)
    answer["vms"] = vms
    return answer


def _reason(stderr):
    text = stderr.decode(errors="replace").strip()
    try:
        return json.loads(text.splitlines()[-1])["msg"]
    except (ValueError, KeyError, IndexError, TypeError):
        return text


def _flat(value, prefix):
    for key, item in value.items():
        path = prefix + key
        if isinstance(item, dict):
            yield from _flat(item, path + ".")
        else:
            yield path, item


def _sanitized(value):
    if isinstance(value, dict):
        return {re.sub(r"[^a-z0-9_]", "_", re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", k).lower()): _sanitized(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_sanitized(v) for v in value]
    return value
