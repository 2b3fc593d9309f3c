# SPDX-License-Identifier: GPL-2.0-only
"""Which results count as found when the sources are broken on purpose: see tests/mutations/run."""

import importlib.machinery
import importlib.util
import os
import sys

import pytest

RUN = os.path.join(os.path.dirname(os.path.realpath(__file__)), "../mutations/run")


@pytest.fixture(name="mutations")
def loaded(monkeypatch):
    loader = importlib.machinery.SourceFileLoader("mutations_run", RUN)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    monkeypatch.setattr(module, "STAGE_SECONDS", 2)
    return module


@pytest.mark.parametrize("script, result", [
    ("echo '5 passed in 3 s'", "passed"),
    ("echo '1 failed, 4 passed'; exit 1", "failed"),
    # A guest that crashes prints no totals.
    ("echo 'guest: the guest died before the command ended: Oops'; exit 3", "failed"),
    ("echo '.F.'; echo 'guest: no end after 900 s; stopped. The log: x'; exit 3", "timeout"),
    ("echo running; exec sleep 60", "timeout"),
    # KUnit: checks that fail for each stopped guest, and a case that failed before.
    ("echo 'kunit: the guest was stopped after 1200 s';"
     "printf '\\033[31m[FAILED]\\033[0m store_reports\\n[FAILED] guest_ends\\n';"
     "echo '==== [FAILED] guest ===='; echo '40 passed, 2 failed, 0 skipped'; exit 1", "timeout"),
    ("echo 'kunit: the guest was stopped after 1200 s';"
     "printf '\\033[31m[FAILED]\\033[0m insert_beside_drop\\n[FAILED] guest_ends\\n'; exit 1",
     "failed")])
def test_outcome(mutations, tmp_path, script, result):
    (tmp_path / "tree").mkdir()
    assert mutations.outcome(tmp_path / "tree", "stage", ["sh", "-c", script]) == result


def test_no_test_ran(mutations, tmp_path):
    (tmp_path / "tree").mkdir()
    with pytest.raises(ValueError, match="exit code 2 before any test"):
        mutations.outcome(tmp_path / "tree", "stage", ["sh", "-c", "exit 2"])


@pytest.mark.parametrize("results, found", [
    (["timeout", "failed", "failed"], ("b", ["a"])), (["timeout", "passed", "timeout"],
                                                      (None, ["a", "c"]))])
def test_finder_goes_on(mutations, tmp_path, monkeypatch, results, found):
    """A stage that times out has found nothing; the next one may find it."""
    monkeypatch.setattr(mutations, "WORK", str(tmp_path))
    monkeypatch.setattr(mutations, "copy_sources", lambda tree: os.makedirs(tree + "/module"))
    monkeypatch.setattr(mutations, "mutated", lambda mutation: "")
    monkeypatch.setattr(mutations, "stages", lambda suites, tests: [(name, []) for name in "abc"])
    monkeypatch.setattr(mutations, "outcome", lambda tree, name, command: results.pop(0))
    assert mutations.finder(("kind", "name", "module/x.c", "f", [], [], [])) == found


def test_all_of_them_apply(mutations, tmp_path, monkeypatch):
    monkeypatch.setattr(mutations, "WORK", str(tmp_path))
    monkeypatch.setattr(sys, "argv", [RUN, "--check"])
    assert len(mutations.MUTATIONS) == 20
    assert mutations.main() == 0
    for mutation in mutations.MUTATIONS:
        with open(os.path.join(mutations.TOP, mutation[2]), encoding="utf-8") as file:
            assert mutations.mutated(mutation) != file.read(), mutation[1]
