# Copyright (c) 2026, the trueplan authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one action plugin of the collection: it picks the binary for the platform where the task runs, and hands over the ledger.

A file of each module's name beside this one leads here: generated, see modules/xtask/src/docs.rs. Everything else is done by the binary.
The ledger is a folder in Ansible's own temporary folder of this run, in which the tasks of
a check run tell the later ones what they planned.
"""

from __future__ import annotations

import inspect
import json
import os
import platform
import subprocess

from ansible import constants as C
from ansible import context
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

try:  # ansible-core 2.19 and later: what is sent and read has a profile; a native module's is "legacy"
    from ansible.module_utils.common.json import Direction, get_module_encoder

    PROFILE = ("legacy",)
    ENCODER = {"cls": get_module_encoder(PROFILE[0], Direction.CONTROLLER_TO_MODULE)}
except ImportError:
    from ansible.module_utils.common.json import AnsibleJSONEncoder

    PROFILE = ()
    ENCODER = {"cls": AnsibleJSONEncoder, "vault_to_text": True}

display = Display()


def _warm():
    """Fills caches of ansible-core 2.21 in its main process, which would else be filled in the process of each task: 15 ms a task."""
    try:
        from ansible._internal._task import UnifiedTaskResult
        from ansible.module_utils.common.json import get_module_decoder

        get_module_decoder(PROFILE[0], Direction.MODULE_TO_CONTROLLER)
        for from_module in (True, False):
            UnifiedTaskResult.get_result_key_to_resolved_field_mapping(from_module)
    except Exception:  # noqa: BLE001 - nothing depends on it, and these names are Ansible's own
        pass


_warm()

COLLECTION = "trueplan.virt"
# The platform whose binary lies directly under plugins/modules; others lie in plugins/modules/<architecture>/.
DEFAULT_PLATFORM = ("Linux", "x86_64")
ALIASES = {"amd64": "x86_64", "arm64": "aarch64"}


class ActionModule(ActionBase):
    """Runs a module of this collection."""

    TRANSFERS_FILES = False
    _supports_check_mode = True
    _supports_async = True

    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        del tmp
        short = self._module_name()
        local = self._is_local()

        system = self._platform(local)
        if isinstance(system, dict):
            result.update(system)
            return result
        module, path, error = self._binary_for(short, system)
        if error:
            result.update(error)
            return result

        args = dict(self._task.args)
        folder, note = self._ledger(local)
        if folder:
            args["_trueplan_ledger"] = folder

        if not PROFILE:
            # ansible-core before 2.19 writes the arguments of a native module with a plain encoder, which knows no !vault value.
            args = json.loads(json.dumps(args, **ENCODER))
        wrap_async = self._task.async_val and not self._connection.has_native_async
        answer = None
        if local and not self._task.async_val:
            answer = self._started_in_place(module, path, short, args, task_vars)
        if answer is None:
            answer = self._execute_module(module_name=module, module_args=args, task_vars=task_vars, wrap_async=wrap_async)
        result.update(answer)
        self._explain(result, short)
        if note:
            result.setdefault("warnings", []).append(note)
        if not wrap_async:
            self._remove_tmp_path(self._connection._shell.tmpdir)
        return result

    def _module_name(self):
        """The module that is meant, behind redirects. `resolved_action` names this plugin on ansible-core 2.17, not the module."""
        found = self._shared_loader_obj.module_loader.find_plugin_with_context(self._task.action, collection_list=self._task.collections)
        name = found.resolved_fqcn if found.resolved and found.resolved_fqcn else self._task.action
        return name.rsplit(".", 1)[-1]

    def _is_local(self):
        return self._connection.transport == "local" or getattr(self._connection, "_load_name", "") == "ansible.builtin.local"

    def _platform(self, local):
        """The (system, architecture) where the task runs, or a failure."""
        if local:
            return platform.system(), ALIASES.get(platform.machine(), platform.machine())
        answer = self._low_level_execute_command("uname -s -m", sudoable=False)
        words = answer.get("stdout", "").split()
        if answer.get("rc") != 0 or len(words) != 2:
            return _failure(
                "unable to tell the platform of %s: `uname -s -m` answered rc %s, %r; run the task on localhost (delegate_to) or on a Linux host"
                % (self._connection._play_context.remote_addr, answer.get("rc"), answer.get("stderr") or answer.get("stdout"))
            )
        return words[0], ALIASES.get(words[1], words[1])

    def _started_in_place(self, module, path, short, args, task_vars):
        """Runs the installed binary where it lies, its arguments on standard input; None where Ansible's own way is needed.

        Ansible copies a native module (5 MB) and its arguments to a folder that it makes for each task, and starts a shell for each step.
        On the controller nothing of that is needed: the binary is there, and so no argument lies in a file.
        """
        if self._connection.become or self._play_context.become or C.DEFAULT_KEEP_REMOTE_FILES or not _known_ansible():
            return None
        if not os.access(path, os.X_OK):
            return None
        self._connection._connect()
        self._update_module_args(module, args, task_vars)
        more = {}
        self._compute_environment_string(more)
        environment = dict(os.environ, **{str(k): str(v) for k, v in more.items()})
        display.vvv("EXEC %s %s - (in place)" % (path, short), host=self._play_context.remote_addr)
        try:
            process = subprocess.Popen(
                [path, short, "-"],
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
        except PermissionError:  # a file system that is mounted noexec: the ordinary way has remote_tmp to copy it to
            return None
        try:
            stdout, stderr = process.communicate(json.dumps(args, **ENCODER).encode("utf-8", "surrogateescape"))
        except BaseException:
            # The task's `timeout`, or a cancelled run: what the task's end was told for shall not go on behind it.
            process.kill()
            process.wait()
            raise
        self._used_interpreter = None
        answer = {
            "rc": process.returncode,
            "stdout": stdout.decode("utf-8", "surrogateescape"),
            "stderr": stderr.decode("utf-8", "surrogateescape"),
        }
        data = self._parse_returned_data(answer, *PROFILE)
        if hasattr(data, "as_result_dict"):  # ansible-core 2.21
            data.remove_internal_keys()
            return data.as_result_dict(for_round_trip=True)
        from ansible.vars.clean import remove_internal_keys

        remove_internal_keys(data)
        if PROFILE:
            return data
        from ansible.utils.unsafe_proxy import wrap_var

        return wrap_var(data)

    def _binary_for(self, short, system):
        plugins = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        if system == DEFAULT_PLATFORM:
            path, module = os.path.join(plugins, "modules", short), "%s.%s" % (COLLECTION, short)
        else:
            path = os.path.join(plugins, "modules", system[1], short)
            module = "%s.%s.%s" % (COLLECTION, system[1], short)
        if os.path.isfile(path):
            return module, path, None
        shipped = self._shipped(plugins, short)
        if system[0] != "Linux" or (shipped and system != DEFAULT_PLATFORM):
            return None, None, _failure(
                "unable to run %s: this collection has no binary for %s %s, only for %s; delegate the task to a host of such a platform"
                % (short, system[0], system[1], ", ".join(shipped) or "none")
            )
        return None, None, _failure(
            "unable to run %s: the native binary is missing at %s; install the collection from its tarball, or build it with `cargo xtask dist`"
            % (short, path)
        )

    @staticmethod
    def _shipped(plugins, short):
        found = ["Linux x86_64"] if os.path.isfile(os.path.join(plugins, "modules", short)) else []
        modules = os.path.join(plugins, "modules")
        for arch in sorted(os.listdir(modules)):
            if os.path.isfile(os.path.join(modules, arch, short)):
                found.append("Linux " + arch)
        return found

    def _ledger(self, local):
        """The ledger's folder, and what to say where there can be none."""
        if not context.CLIARGS.get("check"):
            return None, None
        folder = os.path.join(C.DEFAULT_LOCAL_TMP, "trueplan-ledger")
        try:
            os.makedirs(folder, mode=0o700, exist_ok=True)
            if local:
                return folder, None
            # Said once for each such host: every task on it is checked against the real state only.
            marker = os.path.join(folder, "said-" + self._connection._play_context.remote_addr.replace(os.sep, "_"))
            os.close(os.open(marker, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        except FileExistsError:
            return None, None
        except OSError as e:
            return None, "no ledger for this check run (%s): each task is checked against the real state only" % e
        return None, (
            "%s is not local: what earlier tasks of this check run planned is not known there, each task is checked against the real state only"
            % self._connection._play_context.remote_addr
        )

    def _explain(self, result, short):
        """Says what Ansible's own words for a module that could not start mean here."""
        if not result.get("failed") or "error_kind" in result:
            return
        text = " ".join(str(result.get(k, "")) for k in ("msg", "module_stderr", "module_stdout", "exception"))
        if result.get("rc") == 126 or "ermission denied" in text:
            tmpdir = self._connection._shell.tmpdir or self._connection._shell.get_option("remote_tmp")
            result["msg"] = (
                "unable to run %s: the binary may not be executed in %s, which is probably mounted noexec; set remote_tmp "
                "(ansible_remote_tmp) to a folder on a file system that allows it" % (short, tmpdir)
            )
            result["error_kind"] = "unreachable"


def _known_ansible():
    """Whether the parts of ActionBase that a start in place uses are those of ansible-core 2.17 to 2.21."""
    try:
        parse = inspect.signature(ActionBase._parse_returned_data).parameters
        return len(parse) == 2 + len(PROFILE) and callable(ActionBase._update_module_args) and callable(ActionBase._compute_environment_string)
    except AttributeError:
        return False


def _failure(msg):
    return {"failed": True, "changed": False, "msg": msg, "error_kind": "unreachable"}
