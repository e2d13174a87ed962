"""`seorep pull --verbose` and `--log-file`."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path

import pytest

from tests.cli.running import Seorep, serving
from tests.session.calls import KEY
from tests.session.canary import assert_key_is_not_in

FAULTY = ("pull", "--sandbox", "--campaigns", 6, "--keywords", 2, "--faults", "500s=40%", "--seed", 2)


def test_a_log_file_holds_a_json_object_for_each_retry(seorep: Seorep) -> None:
    assert seorep(*FAULTY, "--log-file", "pull.log").code == 0
    records = [json.loads(line) for line in Path("pull.log").read_text().splitlines()]
    retries = [record for record in records if record["level"] == "DEBUG"]
    assert retries
    assert {(one["method"], one["status"], one["cause"]) for one in retries} == {("GET", 500, "transient")}
    assert {"time", "message", "path", "attempt", "seconds", "delay"} <= retries[0].keys()
    assert records[-1]["level"] == "INFO"


def test_a_log_file_is_the_owners_and_is_appended_to(seorep: Seorep) -> None:
    for _ in range(2):
        seorep(*FAULTY, "--log-file", "pull.log")
    assert Path("pull.log").stat().st_mode & 0o777 == 0o600
    assert sum('"level": "INFO"' in line for line in Path("pull.log").read_text().splitlines()) == 2


def test_a_log_file_that_can_not_be_opened_is_refused(seorep: Seorep) -> None:
    with seorep.account() as sandbox:
        ended = seorep("pull", "--log-file", "no/pull.log")
        assert sandbox.stats.requests == 0
    assert ended.code == 2
    assert "--log-file: can't open no/pull.log: No such file or directory." in ended.err


def test_a_pipe_that_nobody_reads_is_refused_at_once(seorep: Seorep) -> None:
    os.mkfifo("pipe")
    assert "--log-file: can't open pipe" in seorep(*FAULTY, "--log-file", "pipe").err


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no device that is full")
def test_a_full_disk_under_the_log_stops_no_pull(seorep: Seorep) -> None:
    ended = seorep(*FAULTY, "--log-file", "/dev/full")
    assert ended.code == 0
    assert "Warning: the log in /dev/full is incomplete: No space left on device" in ended.err


def test_verbose_shows_retries_and_the_end(seorep: Seorep) -> None:
    shown = seorep(*FAULTY, "--verbose").err
    assert "attempt 1: the service failed" in shown
    assert "pull of 6 ended" in shown


def test_without_either_nothing_is_logged(seorep: Seorep) -> None:
    assert "attempt 1" not in seorep(*FAULTY).err
    assert logging.getLogger("seorep_async").level == logging.NOTSET


def test_verbose_and_quiet_are_not_combined(seorep: Seorep) -> None:
    assert "--verbose and --quiet can't be combined" in seorep("pull", "-v", "-q").err


def test_the_log_holds_no_key(seorep: Seorep, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(api_key="other", faults="500s=30%") as sandbox:
        monkeypatch.setenv("SEOREP_BASE_URL", sandbox.base_url)
        monkeypatch.setenv("SEOREP_API_KEY", KEY)
        ended = seorep("pull", "-v", "--log-file", "pull.log")
    assert_key_is_not_in(ended.err)
    assert_key_is_not_in(Path("pull.log").read_text())
