"""A PostgreSQL server for tests, in a folder of its own: Debian's packages, installed if that is possible."""

from __future__ import annotations

import glob
import os
import pwd
import shutil
import socket
import subprocess
from pathlib import Path

import pytest


def find_programs() -> str:
    """The folder of initdb and pg_ctl; skips, and says why, where they cannot be had."""
    for attempt in range(2):
        found = sorted(glob.glob("/usr/lib/postgresql/*/bin/initdb"))
        if found:
            return os.path.dirname(found[-1])
        if attempt == 0 and os.geteuid() == 0 and shutil.which("apt-get"):
            for command in (["update"], ["install", "-y", "postgresql"]):
                subprocess.run(["apt-get", "-qq", *command], check=False, timeout=400, capture_output=True)
    pytest.skip("POSTGRES TESTS SKIPPED: there is no initdb, and postgresql cannot be installed")


class Server:
    """A server that listens on a socket in its folder and on a port of this machine."""

    def __init__(self, programs: str, folder: Path) -> None:
        self._programs, self.folder = programs, folder
        # The server refuses to run as root.
        self._user = "postgres" if os.geteuid() == 0 else None
        if self._user:
            owner = pwd.getpwnam(self._user)
            os.chown(folder, owner.pw_uid, owner.pw_gid)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self._run("initdb", "-D", f"{folder}/data", "-A", "trust", "-U", "postgres", "--no-sync", "-E", "UTF8")
        settings = f"wal_level = logical\nport = {self.port}\nunix_socket_directories = '{folder}'\n"
        with open(folder / "data" / "postgresql.conf", "a") as file:
            file.write(
                settings
                + "listen_addresses = '127.0.0.1'\nmax_replication_slots = 20\nfsync = off\nmax_wal_senders = 20\n"
            )
        self.start()

    @property
    def address(self) -> str:
        return f"host=127.0.0.1 port={self.port} user=postgres dbname=postgres"

    def _run(self, program: str, *arguments: str) -> None:
        command = [f"{self._programs}/{program}", *arguments]
        done = subprocess.run(
            command, user=self._user, cwd="/", capture_output=program != "pg_ctl", text=True, timeout=120
        )
        assert done.returncode == 0, done.stderr

    def pgbench(self, *arguments: str) -> subprocess.Popen:
        """The load generator of PostgreSQL, while the test goes on."""
        place = ["-h", str(self.folder), "-p", str(self.port), "-U", "postgres", "postgres"]
        command = [f"{self._programs}/pgbench", *place, *arguments]
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def start(self) -> None:
        self._run("pg_ctl", "start", "-w", "-D", f"{self.folder}/data", "-l", f"{self.folder}/log", "-s")

    def stop(self, how: str = "fast") -> None:
        self._run("pg_ctl", "stop", "-w", "-D", f"{self.folder}/data", "-m", how, "-s")

    def crash(self) -> None:
        """End it as a crash would, and start it again."""
        self.stop("immediate")
        self.start()
