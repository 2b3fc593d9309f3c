# SPDX-License-Identifier: GPL-2.0-only
"""The JSON output of rxadm conforms to Documentation/rxadm.schema.json."""

import json
import os

import pytest

from rxdlib import direct
from rxdlib.command import SOURCE, run, rxadm
from rxdlib.direct import KIB, MIB, stamp

pytestmark = pytest.mark.one_kernel


@pytest.fixture(scope="module")
def validator():
    import jsonschema   # only in guests of the newer release

    with open(os.path.join(SOURCE, "Documentation/rxadm.schema.json"), encoding="utf-8") as file:
        schema = json.load(file)
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def printed(*args):
    result = rxadm(*args)
    assert (result.returncode, result.stderr) == (0, "")
    return result.stdout


def test_all_there_is(lab, validator):
    cache = lab.cache(4 * MIB, cache_size=4 * MIB)
    ramdisk = lab.ramdisk(16 * MIB, mem_limit=8 * MIB)
    empty = lab.ramdisk(16 * MIB)
    direct.write(ramdisk.path, 0, stamp(1, 64 * KIB))
    run("mkfs.ext4", "-q", ramdisk.path)
    lab.mount(ramdisk.path)
    printed("set", cache.name, "--latency", "on")
    outputs = [("list",), ("status",), ("status", "--latency"), ("info", cache.name),
               ("info", cache.ramdisk.name), ("info", ramdisk.path), ("extents", ramdisk.path),
               ("diff", ramdisk.path, "--base", empty.path, "--compare")]
    with direct.Direct(cache.path) as device:
        for args in outputs:
            validator.validate(json.loads(printed(*args, "--json")))
        device.read(0, 64 * KIB)
        device.read(0, 64 * KIB)
        for args in outputs:
            validator.validate(json.loads(printed(*args, "--json")))
        assert json.loads(printed("info", cache.name, "--json"))["info"][0]["openers"]
    assert json.loads(printed("status", "--latency", "--json"))["latencies"]
    printed("set", cache.name, "--advise", "on")
    for _ in range(2):
        validator.validate(json.loads(rxadm("advise", cache.name, "--json").stdout))
        direct.read(cache.path, 0, 64 * KIB)
    for line in printed("top", "--json", "-d", "0.2", "-n", "2").splitlines():
        validator.validate(json.loads(line))


def test_generations(lab, validator, tmp_path):
    image = tmp_path / "image"
    assert rxadm("save", "--update", lab.ramdisk(MIB).path, image).returncode == 0
    printed_list = json.loads(printed("load", image, "--list", "--json"))
    validator.validate(printed_list)
    assert printed_list["generations"][0]["generation"] == 1


def test_of_none(validator):
    for args in ("list",), ("status",), ("status", "--latency"), \
            ("top", "-n", "1", "-d", "0.1"):
        validator.validate(json.loads(printed(*args, "--json")))


def test_schema_refuses(lab, validator):
    """The schema itself: it rejects what is missing, new or of another type."""
    lab.ramdisk(MIB)
    listed = json.loads(printed("list", "--json"))
    for change in ({"size": "1M"}, {"colour": "red"}, {"state": "asleep"}, {"uuid": None}):
        assert not validator.is_valid({"ramdisks": [{**listed["ramdisks"][0], **change}]})
    del listed["ramdisks"][0]["node"]
    assert not validator.is_valid(listed)
