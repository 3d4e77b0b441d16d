"""Runs scripts in copies of a process that has imported PyTorch, because that takes longer than most jobs do.

So does the end of such a process, which destroys all modules, so copies end without that, after what is registered for the end. Jobs that
run without this script end as those of users.

preload.py serve NAME           imports PyTorch, prints `ready`, and serves the socket of that name until its input ends
preload.py run NAME SCRIPT ...  runs a script in a copy, which has the environment, folder, output and end of this process
"""

import atexit
import ctypes
import faulthandler
import json
import os
import runpy
import selectors
import signal
import socket
import sys

# What jobs import apart from the package that they test.
MODULES = (
    "torch._dynamo",
    "torch.distributed.checkpoint",
    "torch.distributed.fsdp",
    "torch.distributed.tensor.parallel",
)

# Seconds after which a copy prints where its threads are: less than tests wait.
STUCK_AFTER = 200

# A constant of Linux.
PR_SET_PDEATHSIG = 1

# The exit status of a copy, once it is known.
status = None


def end_fast():
    """Ends a copy. Of what is registered with `atexit`, it is called last."""
    if status is not None:
        sys.stdout.flush()
        sys.stderr.flush()
        # Also calls what libraries have registered, which may destroy objects of Python: with the lock of the interpreter.
        ctypes.PyDLL(None).exit(status)


def status_of(end):
    """Returns the exit status of a script that raises `SystemExit`."""
    if end.code is None:
        return 0
    return end.code & 0xFF if isinstance(end.code, int) else 1


def run(arguments):
    # Where the threads are, if it runs for long. By a signal: a thread that waits would be missing in copies of this process.
    faulthandler.register(signal.SIGALRM)
    signal.alarm(STUCK_AFTER)
    sys.argv = arguments
    sys.path[0] = os.path.dirname(os.path.abspath(arguments[0]))
    global status
    try:
        runpy.run_path(arguments[0], run_name="__main__")
        status = 0
    except SystemExit as end:
        status = status_of(end)
        raise
    except Exception:
        status = 1
        raise


class Server:
    """A process that copies itself."""

    def __init__(self, name):
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(b"\0" + name.encode())
        self.listener.listen(64)
        self.selector = selectors.DefaultSelector()
        self.selector.register(0, selectors.EVENT_READ, self.end)
        self.selector.register(self.listener, selectors.EVENT_READ, self.accept)
        self.copies = set()

    def serve(self):
        """Returns, in each copy, what it has to run."""
        while True:
            for key, _ in self.selector.select():
                if (arguments := key.data()) is not None:
                    return arguments

    def close(self):
        """Closes, in a copy, what is the server's."""
        for key in list(self.selector.get_map().values()):
            if isinstance(key.fileobj, int):
                os.close(key.fileobj)
            else:
                key.fileobj.close()
        self.selector.close()

    def end(self):
        for copy in self.copies:
            end_group(copy)
        raise SystemExit

    def accept(self):
        connection, _ = self.listener.accept()
        size, descriptors, _, _ = socket.recv_fds(connection, 8, 2)
        with connection.makefile("rb") as file:
            request = json.loads(file.read(int.from_bytes(size, "little")))
        copy = os.fork()
        if copy == 0:
            os.setpgid(0, 0)
            # However the server ends, this does too.
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            self.close()
            connection.close()
            return become(request, descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        self.copies.add(copy)
        ended = os.pidfd_open(copy)
        self.selector.register(ended, selectors.EVENT_READ, lambda: self.report(copy, ended, connection))
        self.selector.register(connection, selectors.EVENT_READ, lambda: self.disconnect(copy, connection))
        return None

    def report(self, copy, ended, connection):
        """Says how a copy has ended."""
        # With what it has started.
        end_group(copy)
        _, status = os.waitpid(copy, 0)
        self.copies.remove(copy)
        self.selector.unregister(ended)
        os.close(ended)
        if connection in self.selector.get_map():
            self.selector.unregister(connection)
        try:
            connection.sendall(status.to_bytes(4, "little"))
        except ConnectionError:
            pass
        connection.close()

    def disconnect(self, copy, connection):
        """Ends a copy whose owner has ended."""
        self.selector.unregister(connection)
        end_group(copy)


def end_group(leader):
    try:
        os.killpg(leader, signal.SIGKILL)
    except ProcessLookupError:
        # It has not become the leader yet.
        os.kill(leader, signal.SIGKILL)


def become(request, descriptors):
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    for number, descriptor in enumerate([os.open(os.devnull, os.O_RDONLY), *descriptors]):
        if number != descriptor:
            os.dup2(descriptor, number)
            os.close(descriptor)
    return request["arguments"]


def ask(name, arguments):
    """Has a copy made, and ends as it does."""
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(b"\0" + name.encode())
    request = json.dumps({"arguments": arguments, "environment": dict(os.environ), "folder": os.getcwd()}).encode()
    socket.send_fds(connection, [len(request).to_bytes(8, "little")], [1, 2])
    connection.sendall(request)
    status = connection.recv(4)
    if not status:
        raise SystemExit("the process that makes the copies has ended")
    code = os.waitstatus_to_exitcode(int.from_bytes(status, "little"))
    if code < 0:
        os.kill(os.getpid(), -code)
    raise SystemExit(code)


def main():
    role, name, *arguments = sys.argv[1:]
    if role == "run":
        ask(name, arguments)
    # Before what the modules register.
    atexit.register(end_fast)
    for module in MODULES:
        __import__(module)
    server = Server(name)
    print("ready", flush=True)
    return server.serve()


if __name__ == "__main__":
    run(main())
