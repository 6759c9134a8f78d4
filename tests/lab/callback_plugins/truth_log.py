# Copyright (c) 2026, the trueplan authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes one JSON line for each (task, host, item) result to the file that TRUEPLAN_TRUTH_LOG names.

With TRUEPLAN_TRUTH_WORLD, a line with the host's whole lab follows each task: what the world is before the host's next task.
"""

from __future__ import annotations

import json
import os
import ssl
import time
import urllib.request

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = """
name: truth_log
type: notification
short_description: Log every result, to compare a check run with the real one
description: See the module's text.
"""


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "notification"
    CALLBACK_NAME = "truth_log"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self):
        super().__init__()
        path = os.environ.get("TRUEPLAN_TRUTH_LOG")
        self._file = open(path, "a", encoding="utf-8") if path else None
        self._play = ""
        self._worlds = bool(os.environ.get("TRUEPLAN_TRUTH_WORLD"))
        # The lab's certificate is its own, and nothing secret goes over this connection.
        self._tls = ssl._create_unverified_context()

    def v2_playbook_on_play_start(self, play):
        self._play = play.get_name()

    def _write(self, result, status, item=None):
        if self._file is None:
            return
        task, host, data = result._task, result._host, result._result
        if status == "ok" and data.get("changed"):
            status = "changed"
        line = {
            "play": self._play,
            "task": task.get_name(),
            "path": task.get_path(),
            "action": getattr(task, "resolved_action", None) or task.action,
            "host": host.get_name(),
            "item": item,
            "status": status,
            "result": json.loads(json.dumps(data, default=str)),
        }
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()

    # A loop's items are written one by one; its sum is not, unless the loop itself failed to be made.
    def _whole(self, result, status):
        loop = "results" in result._result and bool(result._task.loop)
        if not loop:
            self._write(result, status)
        if self._worlds and status != "skipped":
            self._write_world(result, loop)

    def _write_world(self, result, loop):
        control = result._host.get_vars().get("lab_control")
        if control is None or self._file is None:
            return
        world = self._world(control)
        # What a task started and did not wait for is given a moment to end.
        for _unused in range(10):
            if not _busy(world) or result._task.get_name().startswith("Somebody else"):
                break
            time.sleep(0.2)
            world = self._world(control)
        task, data = result._task, result._result
        line = {
            "kind": "world",
            "play": self._play,
            "task": task.get_name(),
            "path": task.get_path(),
            "host": result._host.get_name(),
            "loop": loop,
            "changed": bool(data.get("changed")),
            "world": world,
        }
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()

    def _world(self, control):
        with urllib.request.urlopen(control + "/world", context=self._tls, timeout=30) as answer:
            return json.load(answer)

    def v2_runner_on_ok(self, result):
        self._whole(result, "ok")

    def v2_runner_on_failed(self, result, ignore_errors=False):
        self._whole(result, "failed")

    def v2_runner_on_skipped(self, result):
        self._whole(result, "skipped")

    def v2_runner_on_unreachable(self, result):
        self._whole(result, "unreachable")

    def _label(self, result):
        return str(result._result.get("_ansible_item_label", result._result.get("item")))

    def v2_runner_item_on_ok(self, result):
        self._write(result, "ok", self._label(result))

    def v2_runner_item_on_failed(self, result):
        self._write(result, "failed", self._label(result))

    def v2_runner_item_on_skipped(self, result):
        self._write(result, "skipped", self._label(result))


def _busy(world):
    tasks = (world["pve"].get("tasks") or []) + (world["vcenter"].get("tasks") or [])
    return any(("upid" in t and t["status"] is None) or t.get("state") in ("running", "queued") for t in tasks)
