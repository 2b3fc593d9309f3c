# SPDX-License-Identifier: GPL-2.0-only
"""Working sets: prepared once on the disk, copied to RAM disks, read from start to end."""

import os
import random

from ..system import command
from ..system.undo import check
from ..tools import fio, postgres
from . import ground

DATA, TREE, CLUSTER = "data", "tree", "cluster"
FILE, FILES = 32 << 10, 100
MIB = 1 << 20
# What a scale of pgbench and a cluster without it take on the disk, and the logs beside them.
SCALE, EMPTY, LOGS = 54 * MIB, 32 * MIB, 96 * MIB
# The server has a part of the memory for itself. A large log would not fit beside the set.
BUFFERS = 16
CONFIG = """
listen_addresses = ''
shared_buffers = {buffers}MB
min_wal_size = 32MB
max_wal_size = 64MB
wal_level = minimal
max_wal_senders = 0
autovacuum = off
jit = off
"""


class Data:
    """One file. Smaller sets are its start."""

    @staticmethod
    def part(_factor):
        """The part of the disk."""
        return "set"

    @staticmethod
    def takes(_factor):
        return True

    @staticmethod
    def room(size):
        return ground.room(size)

    @staticmethod
    def cover(size, part):
        """The range of the part with the set: a new file system is filled from its start."""
        return min(ground.room(size), part)

    @staticmethod
    def prepare(folder, size, _memory):
        fio.fill(os.path.join(folder, DATA), size)

    @staticmethod
    def copy_in(source, folder, size):
        command.run("dd", f"if={source}/{DATA}", f"of={folder}/{DATA}", "bs=1M",
                    f"count={size // MIB}", "iflag=direct", "oflag=direct", "status=none")

    @staticmethod
    def read(folder, size, direct=False):
        command.run("dd", f"if={folder}/{DATA}", "of=/dev/null", "bs=1M", f"count={size // MIB}",
                    "status=none", *(["iflag=direct"] if direct else []))


class Tree:
    """Files of one size, because differences between trees are not measured here."""

    @staticmethod
    def part(_factor):
        return "tree"

    @staticmethod
    def takes(factor):
        return factor <= 1

    @staticmethod
    def room(size):
        return ground.room(size)

    @staticmethod
    def cover(_size, part):
        """Directories are spread over the whole part."""
        return part

    @staticmethod
    def _names(size):
        return [str(number) for number in range(max(1, size // (FILE * FILES)))]

    def prepare(self, folder, size, _memory):
        noise = random.Random(1)
        for name in self._names(size):
            inner = os.path.join(folder, TREE, name)
            os.makedirs(inner)
            for number in range(FILES):
                with open(os.path.join(inner, str(number)), "wb") as file:
                    file.write(noise.randbytes(FILE))
            check()
        command.run("sync", "--file-system", folder)

    def copy_in(self, source, folder, size):
        os.mkdir(os.path.join(folder, TREE))
        command.run("sh", "-c", 'seq 0 "$0" | xargs cp -a -t "$1"', self._names(size)[-1],
                    os.path.join(folder, TREE), cwd=os.path.join(source, TREE))

    def read(self, folder, size, direct=False):
        """Read every file once; return the time."""
        assert not direct
        script = ('seq 0 "$0" | xargs sh -c \'find "$@" -type f -print0\' sh | '
                  'xargs -0 cat >/dev/null')
        return command.timed("sh", "-c", script, self._names(size)[-1],
                             cwd=os.path.join(folder, TREE))


class Cluster:
    """A cluster of PostgreSQL with the tables of pgbench. Each size has a part of its own."""

    @staticmethod
    def part(factor):
        return f"postgres-{factor:g}"

    @staticmethod
    def takes(_factor):
        return True

    @staticmethod
    def room(size):
        return ground.room(max(size, SCALE + EMPTY)) + LOGS

    @staticmethod
    def cover(_size, part):
        return part

    @staticmethod
    def scale(size):
        """The scale of pgbench for a set of this size."""
        return max(1, (size - EMPTY) // SCALE)

    def prepare(self, folder, size, memory):
        cluster = os.path.join(folder, CLUSTER)
        postgres.create(cluster, CONFIG.format(buffers=memory // BUFFERS // MIB))
        with postgres.serve(cluster) as server:
            server.fill(self.scale(size))

    @staticmethod
    def copy_in(source, folder, _size):
        command.run("cp", "-a", os.path.join(source, CLUSTER), folder)

    @staticmethod
    def read(folder, _size, direct=False):
        assert not direct
        command.run("sh", "-c", 'find "$0" -type f -print0 | xargs -0 cat >/dev/null',
                    os.path.join(folder, CLUSTER))
