"""Runs the private PostgreSQL and ends with whoever started it, however that ends.

This file is a program of its own, of the standard library alone: `python -I -S keeper.py '{...}'`. Its standard input
is a pipe that the server holds open. When the server is gone (stopped, crashed, killed), the pipe ends, and so does
PostgreSQL, and its folder is deleted.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

STARTED, FAILED = "started", "failed: "
_STOP_SECONDS_MAX = 5
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class Plan:
    """What to run. `user` is who it runs as, if not as ourselves: PostgreSQL refuses to be root."""

    programs: str  # the folder of initdb and postgres
    folder: str  # private to us: data, socket and log go there
    superuser: str
    user: str | None
    settings: dict[str, str]
    memory_bytes_max: int


def run(plan: Plan) -> int:
    """Until standard input ends, or PostgreSQL does."""
    folder = Path(plan.folder)
    try:
        if plan.user is not None:
            shutil.chown(folder, user=plan.user)
        programs = _within_reach(plan)
        _initialise(plan, programs)
        postgres = _start(plan, programs)
        _say(STARTED)
        threading.Thread(target=_read_to_end, args=(postgres,), daemon=True).start()
        postgres.wait()
    except (OSError, subprocess.SubprocessError) as error:
        _say(f"{FAILED}{_reason(error)}")
        return 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


def _say(text: str) -> None:
    sys.stdout.write(text.replace("\n", " ") + "\n")
    sys.stdout.flush()


def _reason(error: Exception) -> str:
    said = getattr(error, "stderr", None)
    return str(said).strip() if said else str(error)


def _within_reach(plan: Plan) -> Path:
    """The programs, where the other user can run them: copied if they are in a folder that is closed to him."""
    programs = Path(plan.programs)
    closed = [p for p in programs.parents if not p.stat().st_mode & 0o001]
    if plan.user is None or not closed:
        return programs
    own = Path(plan.folder) / "pg"
    for name in ("lib", "share"):
        shutil.copytree(programs.parent / name, own / name)
    (own / "bin").mkdir()
    for name in ("initdb", "postgres"):
        shutil.copy(programs / name, own / "bin" / name)
    return own / "bin"


def _initialise(plan: Plan, programs: Path) -> None:
    command = [str(programs / "initdb"), "-D", f"{plan.folder}/data", "-U", plan.superuser, "--no-sync"]
    command += ["--auth=trust", "--encoding=UTF8", "--no-locale", "--locale-provider=builtin"]
    command += ["--builtin-locale=C.UTF-8", "--no-instructions", "--no-data-checksums"]
    command += [
        word
        for name in ("max_connections", "shared_buffers")
        for word in ("-c", f"{name}={plan.settings[name]}")
    ]
    subprocess.run(
        command,
        check=True,
        capture_output=True,
        text=True,
        user=plan.user,
        cwd=plan.folder,
        umask=0o077,
        timeout=60,
        env=_environment(),
    )


def _environment() -> dict[str, str]:
    """Without what is meant for another PostgreSQL: this one would take its port, its time zone and more from it."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PG")}


def _start(plan: Plan, programs: Path) -> subprocess.Popen[bytes]:
    settings = {"unix_socket_directories": plan.folder, "listen_addresses": "", **plan.settings}
    command = [str(programs / "postgres"), "-D", f"{plan.folder}/data"]
    command += [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]

    import resource  # which not every system has: this file is read there, too

    libc = ctypes.CDLL(None)

    def confine() -> None:  # as the other user, who may not be able to read Python's modules
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if sys.platform == "linux":
            libc.prctl(_PR_SET_PDEATHSIG, signal.SIGQUIT)  # should the keeper itself be killed
            # Elsewhere shared libraries count, and are many.
            resource.setrlimit(resource.RLIMIT_AS, (plan.memory_bytes_max, plan.memory_bytes_max))

    with open(f"{plan.folder}/log", "wb") as log:
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, user=plan.user, cwd=plan.folder, umask=0o077,
            preexec_fn=confine, env=_environment(),
        )  # fmt: skip


def _read_to_end(postgres: subprocess.Popen[bytes]) -> None:
    while os.read(0, 4096):
        pass
    postgres.send_signal(signal.SIGQUIT)  # at once: it has nothing to keep
    try:
        postgres.wait(_STOP_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        postgres.kill()


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the end of the pipe is what ends it
    sys.exit(run(Plan(**json.loads(sys.argv[1]))))
