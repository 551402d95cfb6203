"""Starts programs of bin/ from a process that has already imported TensorFlow: a fork takes milliseconds, the import seconds.

    python preloaded.py serve SOCKET                       imports the project, then waits for programs to start
    python -SE preloaded.py run SOCKET PYTHON ARGUMENT...  does what `python ARGUMENT...` does

A program runs in a process of its own, with the caller's arguments, folder, environment, input and output. The caller ends
with its exit code and passes on signals that ask it to stop; it is killed when the caller is. PYTHON is what the program finds
in `sys.executable`, so that the programs that it starts begin here, too.
"""

import contextlib
import json
import os
import select
import signal
import socket
import sys

BIN = os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(__file__))), "bin")  # noqa: PTH118, PTH120
SECONDS_BETWEEN_LOOKS = 0.02


def serve(path: str) -> None:
    """Start a process for each caller until standard input ends, which it does with whoever started the server."""
    import gc
    import importlib
    import pkgutil

    import ncl_tf.quiet

    for module in pkgutil.walk_packages(ncl_tf.__path__, "ncl_tf."):
        importlib.import_module(module.name)
    gc.freeze()  # what is shared stays shared
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()
    signal.signal(signal.SIGCHLD, _reap)
    while 0 not in select.select([listener, 0], [], [])[0]:
        connection, _ = listener.accept()
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            listener.close()
            _watch(connection)
        connection.close()


def _reap(*_) -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _watch(connection: socket.socket) -> None:
    """Start the program that the caller asks for, kill it when the caller is gone, and send its exit code."""
    _, streams, *_ = socket.recv_fds(connection, 1, 3)
    with connection.makefile() as lines:
        request = json.loads(lines.readline())
    child = os.fork()
    if child == 0:
        connection.close()
        _become(streams, **request)
    for stream in (0, 1, 2, *streams):
        os.close(stream)
    while not (ended := os.waitpid(child, os.WNOHANG))[0]:
        if select.select([connection], [], [], SECONDS_BETWEEN_LOOKS)[0]:
            for number in connection.recv(16) or [signal.SIGKILL]:  # the caller has ended
                os.kill(child, number)
    with contextlib.suppress(BrokenPipeError):
        connection.sendall(b"%d" % os.waitstatus_to_exitcode(ended[1]))
    os._exit(0)


def _become(streams: list[int], python: str, arguments: list[str], folder: str, environment: dict[str, str]) -> None:
    """Run the program in this process, as the interpreter would."""
    import atexit
    import runpy
    import traceback

    os.setsid()
    for target, stream in enumerate(streams):
        os.dup2(stream, target)
        os.close(stream)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update({"GLIBC_TUNABLES": ""} | environment)  # without it, programs start themselves again
    sys.executable, sys.argv, sys.orig_argv, sys.path[0] = python, arguments, [python, *arguments], BIN
    code = 0
    if largest := environment.get("NCL_TEST_LARGEST_FILE"):  # a full disk, for any user
        import resource

        resource.setrlimit(resource.RLIMIT_FSIZE, (int(largest), int(largest)))
    if place := environment.get("NCL_TEST_KILL_AT"):
        _kill_at(*place.split(":"))
    try:
        runpy.run_path(arguments[0], run_name="__main__")
    except SystemExit as end:
        code = end.code if isinstance(end.code, int | None) else 1
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
        code = 1
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code or 0)  # an interpreter with TensorFlow takes a second to clean up


def _kill_at(function: str, count: str) -> None:
    """Let this process kill itself when it is about to call a function of `os` for the count-th time."""
    import itertools

    original, calls = getattr(os, function), itertools.count(1)

    def deadly(*arguments, **settings):
        if next(calls) == int(count):
            os.kill(os.getpid(), signal.SIGKILL)
        return original(*arguments, **settings)

    setattr(os, function, deadly)


def run(path: str, python: str, *arguments: str) -> int:
    """Run a program of bin/ in the server's care and return its exit code; run anything else here."""
    if os.path.dirname(os.path.realpath(arguments[0])) != BIN:  # noqa: PTH120
        os.execv(sys.executable, [sys.executable, *arguments])
    request = {"python": python, "arguments": arguments, "folder": os.getcwd(), "environment": dict(os.environ)}  # noqa: PTH109
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(path)
    socket.send_fds(connection, [b"\n"], [0, 1, 2])
    connection.sendall(json.dumps(request).encode() + b"\n")
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda number, _: connection.sendall(bytes([number])))
    code = int(connection.recv(16) or 70)
    if code < 0:
        if -code != signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    return code


if __name__ == "__main__":
    sys.exit({"serve": serve, "run": run}[sys.argv[1]](*sys.argv[2:]))
