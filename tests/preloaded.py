"""Starts Python programs from a process that has already imported TensorFlow: a fork takes milliseconds, the import seconds.

    python preloaded.py serve SOCKET                     imports the project, then waits for programs to start
    python -SE preloaded.py run SOCKET PYTHON ARGUMENT...  does what `python ARGUMENT...` does; programs of bin/ run there

A program runs in a process of its own, with the caller's arguments, folder, environment, input and output. It ends with
the caller's exit code, and it is killed when the caller is. Nothing but the import is shared. PYTHON is what the program
finds in `sys.executable`, so that the programs that it starts begin here, too.
"""

import contextlib
import os
import select
import signal
import socket
import sys

BIN = os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(__file__))), "bin")  # noqa: PTH118, PTH120
SECONDS_BETWEEN_LOOKS = 0.02


def serve(path: str) -> None:
    """Starts a process for each caller until standard input ends, which it does with whoever started the server."""
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
    while True:
        ready = select.select([listener, 0], [], [])[0]
        if 0 in ready and not os.read(0, 1):
            return
        if listener not in ready:
            continue
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
    """Starts the program that the caller asks for, kills it when the caller is gone, and sends its exit status."""
    import json

    _, streams, *_ = socket.recv_fds(connection, 1, 3)
    with connection.makefile() as lines:
        request = json.loads(lines.readline())
    child = os.fork()
    if child == 0:
        connection.close()
        _become(request, streams)
    for stream in (0, 1, 2, *streams):
        os.close(stream)
    while not (ended := os.waitpid(child, os.WNOHANG))[0]:
        if select.select([connection], [], [], SECONDS_BETWEEN_LOOKS)[0]:  # the caller never writes: it has ended
            os.kill(child, signal.SIGKILL)
    with contextlib.suppress(BrokenPipeError):
        connection.sendall(b"%d" % os.waitstatus_to_exitcode(ended[1]))
    os._exit(0)


def _become(request: dict, streams: list[int]) -> None:
    """Runs the program in this process, as the interpreter would."""
    import atexit
    import runpy
    import traceback

    os.setsid()
    for target, stream in enumerate(streams):
        os.dup2(stream, target)
        os.close(stream)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update({"GLIBC_TUNABLES": ""} | request["environment"])  # without it, programs start themselves again
    sys.executable, *sys.argv = request["python"], *request["arguments"]
    sys.orig_argv = [sys.executable, *sys.argv]
    sys.path[0] = BIN
    code = 0
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
    except SystemExit as end:
        code = end.code or 0
        if not isinstance(code, int):
            print(code, file=sys.stderr)
            code = 1
    except BaseException:
        traceback.print_exc()
        code = 1
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # an interpreter with TensorFlow takes a second to clean up


def run(path: str, python: str, arguments: list[str]) -> int:
    """Runs a program of bin/ in the server's care and returns its exit code; runs anything else here."""
    import json

    program = os.path.realpath(arguments[0])
    if os.path.dirname(program) != BIN:  # noqa: PTH120
        os.execv(sys.executable, [sys.executable, *arguments])
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(path)
    socket.send_fds(connection, [b"\n"], [0, 1, 2])
    request = {
        "python": python,
        "arguments": arguments,
        "folder": os.getcwd(),  # noqa: PTH109
        "environment": dict(os.environ),
    }
    connection.sendall(json.dumps(request).encode() + b"\n")
    code = int(connection.recv(16) or 70)
    if code < 0:
        os.kill(os.getpid(), -code)
    return code


if __name__ == "__main__":
    what, socket_path, *rest = sys.argv[1:]
    if what == "serve":
        serve(socket_path)
    else:
        sys.exit(run(socket_path, rest[0], rest[1:]))
