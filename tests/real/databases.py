"""MariaDB and PostgreSQL servers in folders of their own, driven by their own clients."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.real.processes import Server, as_user, free_ports, program, start, wait_until

LOCAL = "127.0.0.1"
PG_FOLDERS = tuple(str(path) for path in sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True))


@dataclass
class MariaDb:
    """A MariaDB server with a row-based binlog."""

    folder: Path
    port: int = field(default_factory=lambda: free_ports(1)[0])
    server: Server | None = None

    def start(self) -> MariaDb:
        data, settings = self.folder / "data", self.folder / "my.cnf"
        user = ["--user=mysql"] if os.geteuid() == 0 else []
        if not settings.exists():
            self.folder.mkdir(parents=True)
            settings.write_text(self._settings())
            if user:
                shutil.chown(self.folder, "mysql")
            install = program("mariadb-install-db")
            options = ["--auth-root-authentication-method=normal", "--skip-test-db"]
            subprocess.run(
                [install, f"--defaults-file={settings}", *user, *options], check=True, capture_output=True
            )
        self.server = start([program("mariadbd"), f"--defaults-file={settings}", *user], self.folder / "log")
        wait_until(lambda: self._client(["-e", "SELECT 1"]).returncode == 0, self.server, "MariaDB")
        assert data.exists()
        return self

    def _settings(self) -> str:
        given = {
            "datadir": self.folder / "data",
            "socket": self.folder / "sock",
            "pid-file": self.folder / "pid",
            "bind-address": LOCAL,
            "port": self.port,
            "server-id": 223344,
            "log-bin": "mariadb-bin",
            "binlog_format": "ROW",
            "binlog_row_image": "FULL",
            "binlog_row_metadata": "FULL",
            "gtid_strict_mode": 1,
            "character-set-server": "utf8mb4",
            "default-time-zone": "+00:00",
            "sql_mode": "",
            "innodb_buffer_pool_size": "32M",
            "skip-name-resolve": 1,
        }
        return "[mariadbd]\n" + "".join(f"{key}={value}\n" for key, value in given.items())

    def _client(self, options: Sequence[str], text: str | None = None) -> subprocess.CompletedProcess[str]:
        command = [
            program("mariadb"),
            "--no-defaults",
            f"--socket={self.folder / 'sock'}",
            "-uroot",
            "--default-character-set=utf8mb4",
        ]
        return subprocess.run([*command, *options], input=text, capture_output=True, text=True, check=False)

    def run(self, statements: str) -> None:
        """Run statements; any error fails."""
        done = self._client(["--binary-mode"], statements)
        assert done.returncode == 0, done.stderr

    def rows(self, query: str) -> list[list[str]]:
        """The answer of a query whose cells hold neither tabs nor line ends."""
        done = self._client(["-N", "-B", "-r", "-e", query])
        assert done.returncode == 0, done.stderr
        return [line.split("\t") for line in done.stdout.splitlines()]

    def revived(self) -> str | None:
        """The end of the log of a server that has died, and restarts it; None while it runs."""
        assert self.server is not None
        if self.server.process.poll() is None:
            return None
        last_words = self.server.tail()
        self.start()
        return last_words

    def stop(self) -> None:
        if self.server is not None:
            self.server.stop()


@dataclass
class Postgres:
    """A PostgreSQL server with logical decoding."""

    folder: Path
    port: int = field(default_factory=lambda: free_ports(1)[0])
    server: Server | None = None

    def start(self) -> Postgres:
        data = self.folder / "data"
        user = as_user("postgres")
        if not self.folder.exists():
            self.folder.mkdir(parents=True)
            if user:
                shutil.chown(self.folder, "postgres")
            init = [
                *user,
                program("initdb", *PG_FOLDERS),
                "-D",
                str(data),
                "-A",
                "trust",
                "-U",
                "postgres",
                "-E",
                "UTF8",
                "--locale=C.UTF-8",
            ]
            subprocess.run(init, check=True, capture_output=True, cwd="/")
            with (data / "postgresql.conf").open("a") as settings:
                settings.write(
                    f"listen_addresses='{LOCAL}'\nport={self.port}\nunix_socket_directories='{self.folder}'\nwal_level=logical\n"
                    "max_wal_senders=40\nmax_replication_slots=40\nmax_connections=200\ntimezone='UTC'\nshared_buffers='32MB'\nfsync=off\n"
                )
        command = [*user, program("postgres", *PG_FOLDERS), "-D", str(data)]
        self.server = start(
            command, self.folder.parent / f"{self.folder.name}.log", stop_signal=signal.SIGINT
        )
        wait_until(lambda: self._client(["-c", "SELECT 1"]).returncode == 0, self.server, "PostgreSQL")
        return self

    def _client(self, options: Sequence[str], text: str | None = None) -> subprocess.CompletedProcess[str]:
        command = [
            program("psql", *PG_FOLDERS),
            "-X",
            "-q",
            "-v",
            "ON_ERROR_STOP=1",
            "-h",
            LOCAL,
            "-p",
            str(self.port),
            "-U",
            "postgres",
        ]
        return subprocess.run([*command, *options], input=text, capture_output=True, text=True, check=False)

    def run(self, statements: str) -> None:
        """Run statements; any error fails."""
        done = self._client(["-f", "-"], statements)
        assert done.returncode == 0, done.stderr

    def rows_of(self, database: str, query: str) -> list[list[str]]:
        """The answer of a query to one database, whose cells hold neither tabs nor line ends."""
        done = self._client(["-d", database, "-A", "-t", "-F", "\t", "-c", query])
        assert done.returncode == 0, done.stderr
        return [line.split("\t") for line in done.stdout.splitlines()]

    def stop(self) -> None:
        if self.server is not None:
            self.server.stop()
