# SPDX-License-Identifier: GPL-2.0-only
"""PostgreSQL: a cluster and its server, as the user nobody, and pgbench's output as numbers."""

import contextlib
import glob
import math
import os
import re
import signal
import tempfile
import time
from dataclasses import dataclass

from ..system import command
from ..system.errors import BenchError
from ..system.undo import check
from .fio import are_enough

NEEDED = ("postgres", "initdb", "pgbench", "psql")
# Of Debian and Ubuntu, and of the PostgreSQL project's packages for others.
PLACES = ("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin")
MISSING = f"no folder in PATH, or {' or '.join(PLACES)}, has all of {', '.join(NEEDED)}"
NOBODY = 65534
# The server refuses to run as root, and the home and folder of root are closed to others.
AS_NOBODY = ("env", "--chdir=/", "HOME=/", "setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}",
             "--clear-groups")
USER, DATABASE = "rxbench", "bench"
# The processor needs a quarter of the time to fill a table of some size if pages have fewer rows.
FILLED_PERCENT = 25
PATIENCE = 300
POINTS = (1, 5, 10, 25, 50, 75, 90, 95, 99, 99.9)


def _version(path):
    return [int(number) for number in re.findall(r"\d+", path)]


def folder():
    """The folder with all programs: one in PATH, or that of the newest version."""
    found = [path for place in PLACES for path in glob.glob(place)]
    for path in [*os.get_exec_path(), *sorted(found, key=_version, reverse=True)]:
        if all(os.access(os.path.join(path, name), os.X_OK) for name in NEEDED):
            return path
    return None


def _program(name):
    found = folder()
    if not found:
        raise BenchError(MISSING)
    return os.path.join(found, name)


def ready(cluster):
    """Does its server answer? pg_ctl reads the same line."""
    with contextlib.suppress(FileNotFoundError, IndexError):
        with open(f"{cluster}/postmaster.pid", encoding="ascii") as file:
            return file.read().splitlines()[7].strip() == "ready"
    return False


def create(cluster, config):
    """Make a cluster, and append to its configuration."""
    os.mkdir(cluster, 0o700)
    os.chown(cluster, NOBODY, NOBODY)
    command.run(*AS_NOBODY, _program("initdb"), "-D", cluster, "-A", "trust", "-U", USER,
                "--no-sync", "--no-locale", "-E", "UTF8")
    with open(f"{cluster}/postgresql.conf", "a", encoding="ascii") as file:
        file.write(config)


@dataclass(frozen=True)
class Run:
    """Transactions per second, and the times of all transactions in microseconds, sorted."""
    rate: float
    times: list

    def percentile(self, percent):
        """The least time that this share of the transactions did not exceed."""
        return self.times[max(0, math.ceil(len(self.times) * percent / 100) - 1)]

    def percentiles(self):
        return {f"{percent:g}": self.percentile(percent) for percent in POINTS
                if are_enough(len(self.times), percent)}


def rate(output):
    """Transactions per second, without the time to connect."""
    found = re.findall(r"^tps = ([0-9.]+)", output, re.MULTILINE)
    if not found:
        raise BenchError(f"pgbench: no tps in its output: {output.strip()[-80:]!r}")
    return float(found[-1])


def times(lines):
    """The sorted times of transactions, from lines of pgbench's log."""
    return sorted(float(line.split()[2]) for line in lines)


@dataclass(frozen=True)
class Server:
    """A server that runs, by the folder of its socket."""
    sockets: str

    def _client(self, name, *args):
        return command.run(*AS_NOBODY, _program(name), "-h", self.sockets, "-U", USER, *args)[0]

    def sql(self, statement, database=DATABASE):
        return self._client("psql", "-X", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", database,
                            "-c", statement).strip()

    def fill(self, scale):
        """Make the tables of pgbench, in the server, which is faster than through the socket."""
        self.sql(f"CREATE DATABASE {DATABASE}", "postgres")
        self._client("pgbench", "--initialize", "--init-steps=dtGvp", f"--scale={scale}",
                     f"--fillfactor={FILLED_PERCENT}", "--quiet", DATABASE)

    def blocks_read(self):
        """The blocks that were not in the memory of the server itself."""
        return int(self.sql("SELECT blks_read FROM pg_stat_database "
                            f"WHERE datname = '{DATABASE}'"))

    def run(self, script, seconds, clients):
        """Run a built-in script of pgbench."""
        prefix = os.path.join(self.sockets, "transactions")
        output = self._client("pgbench", "--no-vacuum", "--protocol=prepared",
                              f"--builtin={script}", f"--client={clients}", f"--time={seconds}",
                              "--log", f"--log-prefix={prefix}", DATABASE)
        found = []
        for path in glob.glob(f"{glob.escape(prefix)}.*"):
            with open(path, encoding="ascii") as file:
                found += file
            os.unlink(path)
        if not found:
            raise BenchError(f"pgbench: no transaction ended within {seconds} s")
        return Run(rate(output), times(found))


def _wait(process, cluster, log):
    deadline = time.monotonic() + PATIENCE
    while not ready(cluster):
        check()
        if process.poll() is not None or time.monotonic() > deadline:
            log.seek(0)
            last = (log.read().strip().splitlines() or ["no reason given"])[-1]
            raise BenchError(f"{cluster}: the server does not start: {last}")
        time.sleep(0.05)


@contextlib.contextmanager
def serve(cluster):
    """A server as long as the block runs; it ends with a checkpoint."""
    with tempfile.TemporaryDirectory(prefix="rxbench-") as sockets, \
            tempfile.TemporaryFile("w+") as log:
        os.chown(sockets, NOBODY, NOBODY)
        argv = (*AS_NOBODY, _program("postgres"), "-D", cluster, "-k", sockets)
        with command.meanwhile(*argv, log=log, stop=signal.SIGINT, grace=PATIENCE) as process:
            _wait(process, cluster, log)
            yield Server(sockets)
