"""The first process of a test's node, as a container has one: runs a command, and is the parent of all its orphans.

Usage: node.py FOLDER COMMAND...   The owner holds the other end of the standard input.

FOLDER/pid gets the command's process id. When the command ends, everything that it left behind is killed and its exit
code is written to FOLDER/exit. When the
standard input ends, because the owner let go or died, everything is killed and FOLDER is removed. torchrun's workers
have sessions of their own, so neither a process group nor torchrun's end would reach them.
"""

import ctypes
import os
import select
import shutil
import signal
import subprocess
import sys

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36


def prctl(option, value):
    if ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


def kill_children():
    """Kills children until there are none; their orphans become our children in turn."""
    children = f"/proc/self/task/{os.getpid()}/children"
    while True:
        with open(children) as file:
            for pid in file.read().split():
                os.kill(int(pid), signal.SIGKILL)
        try:
            os.wait()
        except ChildProcessError:
            return


def publish(folder, name, number):
    """Makes a file that is never seen half written."""
    with open(f"{folder}/{name}.unfinished", "w") as file:
        file.write(str(number))
    os.rename(f"{folder}/{name}.unfinished", f"{folder}/{name}")


def main():
    folder, command = sys.argv[1], sys.argv[2:]
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    # A session of its own: a Ctrl-C on the owner's terminal does not reach the node, and the owner's death does not make
    # the node an orphaned process group, whose members the kernel hangs up when one of them is stopped.
    os.setsid()
    woken, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake)
    first = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, preexec_fn=lambda: prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    ).pid
    publish(folder, "pid", first)
    while True:
        readable, _, _ = select.select([0, woken], [], [])
        if 0 in readable and not os.read(0, 1):
            break
        if woken in readable:
            os.read(woken, 4096)
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            if pid == first:
                kill_children()
                publish(folder, "exit", os.waitstatus_to_exitcode(status))
    kill_children()
    shutil.rmtree(folder, ignore_errors=True)


main()
