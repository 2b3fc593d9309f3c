# SPDX-License-Identifier: GPL-2.0-only
"""Where is measured: a device, a RAM disk made for it, a disk with a cache before it, a directory.

Written as [NAME=]PLACE; PLACE is a block device, a directory, rxd:SIZE or cache:DEVICE[:SIZE].
"""

import contextlib
import itertools
import os
import re
import stat

from . import devices, guard, hits, machine
from .errors import BadInput, TooSmall
from .units import parse_size
from .units import size as human

SYNTAX = "[NAME=]PLACE"
MEANING = ("a block device, a directory, rxd:SIZE for a new RAM disk, or cache:DEVICE[:SIZE] "
           "for a disk with a new RAM disk, of 1g by default, as its cache")
CACHE_SIZE = 1 << 30
# Memory that a run must leave to others.
SPARE = 128 << 20
# Maximum space that a file system needs for itself.
OVERHEAD = 0.15


@contextlib.contextmanager
def since(undo):
    """Undo at the end of the block what was set up in it."""
    mark = undo.mark()
    try:
        yield
    except BaseException:
        # A signal must not become an error that callers handle.
        undo.unwind(mark)
        raise
    undo.back_to(mark)


class Place:
    """The place of a subject; open() returns its node, mounted() a directory on it."""
    cached = False
    has_node = True
    memory = 0

    def __init__(self, name, title):
        self.name, self.title, self.undo, self.told = name, title, None, None

    def check(self, size, destroy):
        """Refuse a place that cannot be measured, before anything is written."""

    def takes_direct(self):
        """Whether it can be read and written with direct I/O."""
        return True

    def set_up(self, undo):
        self.undo = undo

    def details(self):
        """Details for the report; those that need a set-up are added later."""
        if self.told is None:
            self.told = self.describe()
        return self.told

    def describe(self):
        """The details that are known before the set-up."""
        return {}

    def tell_queue(self, node):
        """Record the queue settings once, also of a node that is created for each measurement."""
        if "queue" not in self.details():
            self.told["queue"] = machine.queue_settings(node)

    def tell_mount(self, directory):
        if "mount" not in self.details():
            mount = machine.mount_of(directory)
            self.told["mount"] = {key: mount[key] for key in ("type", "options")}


class Device(Place):
    """An existing block device; it keeps the data of the previous measurement."""

    def __init__(self, name, title, path):
        super().__init__(name, title)
        self.path, self.kind, self.prepared, self.given = path, None, None, False
        self.read_only = False

    def check(self, size, destroy):
        if self.read_only:
            guard.need_readable_device(self.path, size)
        else:
            guard.need_free_device(self.path, size, destroy)

    def set_up(self, undo):
        if self.undo is undo:
            return
        super().set_up(undo)
        if self.read_only:
            return
        undo.do(f"contents of {self.path}", lambda: None, lambda _: devices.wipe(self.path))

    def describe(self):
        return {"device": self.path, "size": guard.device_size(self.path),
                "queue": machine.queue_settings(self.path)}

    @contextlib.contextmanager
    def open(self):
        """Return the node itself; a file system on it is lost."""
        self.kind = self.prepared = None
        yield self.path

    @contextlib.contextmanager
    def mounted(self, kind):
        with self.mounted_on(self.path, kind) as directory:
            self.tell_mount(directory)
            yield directory

    def format(self, kind):
        if self.kind != kind:
            devices.make_filesystem(self.path, kind)
            self.kind, self.prepared = kind, None

    @contextlib.contextmanager
    def mounted_on(self, node, kind):
        """Mount a file system that stays."""
        with since(self.undo):
            yield devices.mount(self.undo, node, kind)


class RamDisk(Device):
    """A RAM disk that exists for the whole run."""

    def __init__(self, name, title, size):
        super().__init__(name, title, None)
        self.size = self.memory = size

    def check(self, size, destroy):
        devices.need_rxd()
        if self.size < size:
            raise TooSmall(f"rxd:{self.size}: must be at least {human(size)}")

    def set_up(self, undo):
        self.undo = undo
        self.path = devices.ramdisk(undo, self.size)
        self.tell_queue(self.path)

    def describe(self):
        return {"device": "a RAM disk of rxd", "size": self.size}


class Cache(Place):
    """A disk behind a cache that is created for each measurement."""
    cached = True
    numbers = itertools.count()

    def __init__(self, name, title, origin, size):
        super().__init__(name, title)
        self.origin, self.size, self.memory = origin, size, size
        self.mapping = f"rxbench-{os.getpid()}-{next(self.numbers)}"

    def check(self, size, destroy):
        devices.need_rxcache()
        self.origin.check(size, destroy)

    def set_up(self, undo):
        super().set_up(undo)
        self.origin.set_up(undo)

    def describe(self):
        return {"device": "rxcache", "cache": self.size, "origin": {**self.origin.details()}}

    @property
    def read_only(self):
        return self.origin.read_only

    @read_only.setter
    def read_only(self, value):
        self.origin.read_only = value

    @contextlib.contextmanager
    def open(self):
        self.origin.kind = self.origin.prepared = None
        with self._mapped() as node:
            yield node

    @contextlib.contextmanager
    def _mapped(self):
        with since(self.undo):
            disk = devices.ramdisk(self.undo, self.size)
            node = devices.cache(self.undo, disk, self.origin.path, self.mapping)
            self.tell_queue(node)
            yield node

    @contextlib.contextmanager
    def mounted(self, kind):
        with self._mapped() as node, self.origin.mounted_on(node, kind) as directory:
            self.tell_mount(directory)
            yield directory

    def counter(self):
        return hits.counter(f"/dev/mapper/{self.mapping}")

    def format(self, kind):
        self.origin.format(kind)

    @property
    def prepared(self):
        return self.origin.prepared

    @prepared.setter
    def prepared(self, value):
        self.origin.prepared = value


class Directory(Place):
    """A directory on an existing file system; only a new directory in it is written to."""
    has_node = False

    def __init__(self, name, title, path):
        super().__init__(name, title)
        self.path, self.prepared, self.own = path, None, None

    def check(self, size, destroy):
        guard.need_directory(self.path)
        machine.need_space(self.path, int(size * (1 - OVERHEAD)))

    def takes_direct(self):
        return guard.takes_direct(self.path)

    def set_up(self, undo):
        super().set_up(undo)
        self.own = devices.directory(undo, self.path)

    def describe(self):
        return {"directory": os.path.abspath(self.path), "mount": machine.mount_of(self.path)}

    def format(self, kind):
        """Use the existing file system."""

    @contextlib.contextmanager
    def mounted(self, _kind):
        yield self.own


def _split(text):
    match = re.fullmatch(r"([\w.-]+)=(.+)", text)
    return (match[1], match[2]) if match else (None, text)


def _size(spec, text):
    try:
        return parse_size(text)
    except BadInput as error:
        raise BadInput(f"{spec}: {error}") from error


def _one(text, known):
    name, spec = _split(text)
    kind, colon, rest = spec.partition(":")
    if kind == "rxd" and colon:
        size = _size(spec, rest)
        return RamDisk(name or "rxd", name or f"RAM disk {human(size)}", size)
    if kind == "cache" and colon:
        path, _, wanted = rest.partition(":")
        if not path:
            raise BadInput(f"{spec}: no device; a place is {MEANING}")
        guard.need_block_device(path)
        size = _size(spec, wanted) if wanted else CACHE_SIZE
        origin = known.setdefault(os.path.realpath(path), Device(path, path, path))
        return Cache(name or f"cached-{os.path.basename(path)}", name or f"{path} cached", origin,
                     size)
    try:
        mode = os.stat(spec).st_mode
    except OSError as error:
        raise BadInput(f"{spec}: {error.strerror}; a place is {MEANING}") from error
    if stat.S_ISDIR(mode):
        return Directory(name or spec, name or spec, spec)
    if not stat.S_ISBLK(mode):
        raise BadInput(f"{spec}: neither a block device nor a directory")
    device = known.setdefault(os.path.realpath(spec), Device(spec, spec, spec))
    if device.given:
        raise BadInput(f"{spec}: given twice")
    device.given = True
    device.name, device.title = name or os.path.basename(spec), name or spec
    return device


def parse(texts):
    """Parse the user's places; one disk may be given both plain and cached."""
    known = {}
    places = [_one(text, known) for text in texts]
    names = [place.name for place in places]
    for name in names:
        if names.count(name) > 1:
            raise BadInput(f"{name}: two places have this name; name them by NAME=PLACE")
    return places


def are_directories(texts):
    """Whether all places are directories; this is known before any other check."""
    return all(os.path.isdir(_split(text)[1]) for text in texts)


def sector(place):
    """The smallest I/O of the place, as far as it is known before the set-up."""
    device = getattr(place, "origin", place)
    path = getattr(device, "path", None)
    return guard.logical_block_size(path) if path and place.has_node else 512


def need_apart(places):
    """Refuse two places on one disk, plain or cached, if all are mounted at once."""
    disks = [getattr(place, "origin", place) for place in places]
    for disk in disks:
        if disks.count(disk) > 1:
            raise BadInput(f"{disk.path}: is the disk of two places, which are mounted at once; "
                           "give another device for one of them")


def memory(places, together=False):
    """Memory in use at once: that of one cache at a time, unless all exist together."""
    disks = [place.memory for place in places if isinstance(place, RamDisk)]
    caches = [place.memory for place in places if isinstance(place, Cache)]
    return sum(disks) + (sum(caches) if together else max(caches, default=0))


def _need_space_of_all(places, size):
    """Directories may be on one file system, which needs room for the files of all of them."""
    systems = {}
    for place in places:
        if isinstance(place, Directory):
            systems.setdefault(os.stat(place.path).st_dev, []).append(place)
    for on_one in systems.values():
        try:
            on_one[0].check(size * len(on_one), ())
        except BadInput as error:
            paths = ", ".join(place.path for place in on_one)
            raise BadInput(f"{error}; one file system has all of {paths}") from error


def check(places, size, destroy=(), together=False, kept=False):
    """Check each place, and their memory; destroy must name existing devices with data.

    kept means that the files of each place stay until the end.
    """
    if destroy or not all(isinstance(place, Directory) for place in places):
        machine.need_root()
    for name in destroy:
        guard.need_block_device(name)
    for place in places:
        place.check(size, destroy)
    if kept:
        _need_space_of_all(places, size)
    needed = memory(places, together)
    if needed:
        machine.need_memory(needed + SPARE)
