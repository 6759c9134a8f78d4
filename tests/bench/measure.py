"""Runs commands one after the other and says what each took: wall and CPU seconds, peak memory.

One JSON object a line in ({"argv", "env", "stdin", "stdout"}), one out ({"wall", "cpu", "rss_kb", "rc"}). The times are those of the
process and of all its children that it waited for; the memory is that of the largest of them. Linux counts the memory of this runner
at the moment of the start into it, which is why it imports next to nothing (`python -S -E`).
"""

import json
import os
import sys
import time


def run(job):
    stdin = os.open(job.get("stdin") or os.devnull, os.O_RDONLY)
    stdout = os.open(job["stdout"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    actions = [(os.POSIX_SPAWN_DUP2, stdin, 0), (os.POSIX_SPAWN_DUP2, stdout, 1), (os.POSIX_SPAWN_DUP2, stdout, 2)]
    started = time.perf_counter()
    pid = os.posix_spawn(job["argv"][0], job["argv"], job["env"], file_actions=actions)
    _, status, usage = os.wait4(pid, 0)
    wall = time.perf_counter() - started
    os.close(stdin)
    os.close(stdout)
    return {"wall": wall, "cpu": usage.ru_utime + usage.ru_stime, "rss_kb": usage.ru_maxrss, "rc": os.waitstatus_to_exitcode(status)}


for line in sys.stdin:
    sys.stdout.write(json.dumps(run(json.loads(line))) + "\n")
    sys.stdout.flush()
