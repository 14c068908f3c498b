"""The guardian: a small process between the harness and a command, which outlives neither of them for long.

It starts the command in a session of its own and waits. It ends the command's whole process group, TERM then KILL, when
the command is over, when the harness says so, and when the harness dies: then the control pipe reads end-of-file, which
no kill of any kind can prevent. What left the group (``setsid``) is found by a mark in the environment and reported.

Run as a script with isolated start-up, so it imports little::

    python -I -S guardian.py CONTROL_FD STATUS_FD OUTPUT_FD MARK GRACE DIRECTORY PROGRAM ARGUMENT…

It writes JSON lines to the status pipe: ``{"pid": …}`` or ``{"error": …}``, then ``{"code": …, "ended": […],
"escaped": […]}``.
"""

import os
import select
import signal
import sys
import time

POLL = 0.01
KILL_SECONDS = 1.0
"""How long a killed group may take to be gone; a process in uninterruptible sleep is not waited for."""


REAPED: "dict[int, int]" = {}
"""Pid → wait status."""


def main() -> None:
    control, status, output = (int(one) for one in sys.argv[1:4])
    mark, grace, directory = sys.argv[4], float(sys.argv[5]), sys.argv[6]
    command = sys.argv[7:]
    for one in (control, status, output):  # the command gets none of them, else a pipe would outlive its ends here
        os.set_inheritable(one, False)
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(number, lambda *_: None)  # a handler, so that the wake-up pipe is written to
    group = start(command, directory, output)
    os.close(output)
    if isinstance(group, str):
        say(status, f'{{"error": {quoted(group)}}}')
        return
    say(status, f'{{"pid": {group}}}')
    wait(group, control, wake_read)
    ended = end(group, grace)
    code = reap(group)
    escaped = [pid for pid in marked(mark) if pid != os.getpid()]
    say(status, f'{{"code": {code}, "ended": {ended}, "escaped": {escaped}}}')


def start(command: "list[str]", directory: str, output: int) -> "int | str":
    """The process group of the command, or why it could not be started."""
    failed_read, failed_write = os.pipe()  # closed by a successful exec
    pid = os.fork()
    if pid == 0:
        try:
            os.setsid()
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD, signal.SIGPIPE):
                signal.signal(number, signal.SIG_DFL)
            signal.set_wakeup_fd(-1)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(output, 1)
            os.dup2(output, 2)
            os.chdir(directory)
            os.execvp(command[0], command)
        except OSError as error:
            os.write(failed_write, str(error).encode())
        finally:
            os._exit(127)
    os.close(failed_write)
    failed = os.read(failed_read, 4096).decode(errors="replace")
    os.close(failed_read)
    if failed:
        os.waitpid(pid, 0)
        return failed
    return pid


def wait(group: int, control: int, wake: int) -> None:
    """Until the command is over, somebody signals, or the control pipe says something or closes."""
    while True:
        ready = select.select([control, wake], [], [])[0]
        if control in ready:
            return
        received = os.read(wake, 4096)
        if over(group) or any(number != signal.SIGCHLD for number in received):
            return


def over(pid: int) -> bool:
    """Whether the command has ended. Where it can be, it is not reaped yet: its number, which is also its group's,
    stays its own while the group is ended."""
    if hasattr(os, "waitid"):
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    done, status = os.waitpid(pid, os.WNOHANG)
    if done:
        REAPED[pid] = status
    return bool(done)


def end(group: int, grace: float) -> "list[int]":
    """End all of the group; gives who was still there."""
    there = members(group)
    for number, seconds in ((signal.SIGTERM, grace), (signal.SIGKILL, KILL_SECONDS)):
        deadline = time.monotonic() + seconds
        if not members(group):
            break
        send(group, number)
        send(group, signal.SIGCONT)  # a stopped process hears TERM only when it goes on
        while members(group) and time.monotonic() < deadline:
            time.sleep(POLL)
    return there


def send(group: int, number: int) -> None:
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        pass


def members(group: int) -> "list[int]":
    """The living processes of the group. Without /proc: the group itself while anybody can be signalled."""
    found = []
    for pid, fields in processes():
        if int(fields[2]) == group and fields[0] not in "ZX":
            found.append(pid)
    if found or os.path.isdir("/proc/self"):
        return found
    try:
        os.killpg(group, 0)
    except (ProcessLookupError, PermissionError):
        return []
    return [group]


def processes() -> "list[tuple[int, list[str]]]":
    """Pid and the fields of ``stat`` from the state on, where there is a /proc."""
    found = []
    try:
        names = os.listdir("/proc")
    except OSError:
        return []
    for name in names:
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                    found.append((int(name), file.read().rpartition(")")[2].split()))
            except OSError:
                continue
    return found


def marked(mark: str) -> "list[int]":
    """Living processes that carry the mark in their environment."""
    wanted = mark.encode()
    found = []
    for pid, fields in processes():
        if fields[0] in "ZX":
            continue
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                if wanted in file.read():
                    found.append(pid)
        except OSError:
            continue
    return found


def reap(pid: int) -> int:
    """The exit code; negative is a signal."""
    deadline = time.monotonic() + KILL_SECONDS
    while pid not in REAPED and time.monotonic() < deadline:
        if not over(pid):
            time.sleep(POLL)
        elif pid not in REAPED:
            REAPED[pid] = os.waitpid(pid, 0)[1]
    return os.waitstatus_to_exitcode(REAPED.get(pid, int(signal.SIGKILL)))


def say(status: int, line: str) -> None:
    try:
        os.write(status, line.encode() + b"\n")
    except OSError:
        pass  # nobody listens any more


def quoted(text: str) -> str:
    import json

    return json.dumps(text)


if __name__ == "__main__":
    main()
