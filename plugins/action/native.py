# Copyright (c) 2026, the trueplan authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one action plugin of the collection: it picks the binary for the platform where the task runs, and hands over the ledger.

Everything else is done by the binary. The ledger is a folder in Ansible's own temporary folder of this run, in which the tasks of
a check run tell the later ones what they planned.
"""

from __future__ import annotations

import os
import platform

from ansible import constants as C
from ansible import context
from ansible.plugins.action import ActionBase

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
        module, error = self._binary_for(short, system)
        if error:
            result.update(error)
            return result

        args = dict(self._task.args)
        folder, note = self._ledger(local)
        if folder:
            args["_trueplan_ledger"] = folder

        wrap_async = self._task.async_val and not self._connection.has_native_async
        result.update(
            self._execute_module(module_name=module, module_args=args, task_vars=task_vars, wrap_async=wrap_async)
        )
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

    def _binary_for(self, short, system):
        plugins = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        if system == DEFAULT_PLATFORM:
            path, module = os.path.join(plugins, "modules", short), "%s.%s" % (COLLECTION, short)
        else:
            path = os.path.join(plugins, "modules", system[1], short)
            module = "%s.%s.%s" % (COLLECTION, system[1], short)
        if os.path.isfile(path):
            return module, None
        shipped = self._shipped(plugins, short)
        if system[0] != "Linux" or (shipped and system != DEFAULT_PLATFORM):
            return None, _failure(
                "unable to run %s: this collection has no binary for %s %s, only for %s; delegate the task to a host of such a platform"
                % (short, system[0], system[1], ", ".join(shipped) or "none")
            )
        return None, _failure(
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


def _failure(msg):
    return {"failed": True, "changed": False, "msg": msg, "error_kind": "unreachable"}
