"""Each error has its exit code, and a line that tells it; the README's script for every night goes by these."""

import os
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

import seorep_async as api
from seorep_async.cli.exit_codes import NoCampaignsError, exit_code_of, explain, in_shell_words, message_of
from seorep_async.errors import one_line
from seorep_async.export import ExportError
from tests.cli.running import Seorep

CODES: list[tuple[int, list[type[BaseException]]]] = [
    (1, [api.SeoRepError, OSError, KeyError]),
    (2, [api.ConfigurationError, api.InvalidRequestError, api.NotFoundError, api.RedirectError]),
    (2, [ImportError, click.UsageError]),
    (3, [api.AuthenticationError]),
    (5, [api.ConnectionFailedError, api.AttemptTimeoutError, api.ProtocolError, api.BodyTooLargeError]),
    (5, [api.DeadlineExceededError, api.ServerError, api.RateLimitedError, api.StatusError]),
    (6, [api.DecodeError, api.PaginationError]),
    (7, [ExportError]),
    (8, [NoCampaignsError]),
    (130, [KeyboardInterrupt]),
]


@pytest.mark.parametrize(("kind", "code"), [(kind, code) for code, kinds in CODES for kind in kinds])
def test_an_error_has_its_code(kind: type[BaseException], code: int) -> None:
    assert exit_code_of(kind("what happened")) == code


def test_an_unexpected_error_is_one_line_with_its_place(seorep: Seorep, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*_: object, **__: object) -> None:
        raise KeyError("hm")

    monkeypatch.setattr("seorep_async.cli.pull.run_export", broken)
    ended = seorep("pull", "--sandbox")
    assert ended.code == 1
    assert ended.err.startswith("Error: unexpected KeyError: 'hm' (test_exit_codes.py:")
    assert ended.err.count("\n") == 1


def test_a_missing_extra_is_named_with_its_command(seorep: Seorep, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    ended = seorep("pull", "--sandbox", "-o", "a.duckdb")
    assert ended.code == 2
    advice = "pip install 'seorep-async[duckdb]', or in a clone: pip install '.[duckdb]'"
    assert ended.err == f"Error: this needs duckdb: {advice}\n"


def test_an_error_shows_its_subject_status_and_attempts() -> None:
    error = api.ServerError("the service failed", subject="campaign 3", status=500, attempts=8, body_excerpt="long")
    assert explain(error) == "campaign 3: the service failed (status 500, 8 attempts)"


def test_control_characters_are_replaced_in_messages() -> None:
    assert one_line("a\x1b[2Jb\nc") == "a\N{REPLACEMENT CHARACTER}[2Jb c"


@pytest.mark.parametrize(
    ("message", "argument", "expected"),
    [
        ("max_concurrency must be from 1 to 1024", "max_concurrency", "--max-concurrency must be from 1 to 1024"),
        ("snapshot_date must be tomorrow", "snapshot_date", "--snapshot-date must be tomorrow"),
        ("extra_params: 'filter' has a place of its own: filter=…", "extra_params", "--param: 'filter' has a place of"),
        ("api_key holds a line break", "api_key", "SEOREP_API_KEY holds a line break"),
        ("base_url needs a scheme", "base_url", "the base URL needs a scheme"),
        ("can't write a.csv: it is a folder", "out", "can't write a.csv: it is a folder"),
        ("account is a word here", None, "account is a word here"),
    ],
)
def test_a_wrong_argument_is_named_by_its_option(message: str, argument: str | None, expected: str) -> None:
    assert message_of(api.ConfigurationError(message, argument=argument)).startswith(expected)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("Repeat it, or pass restart=True", "Repeat it, or pass --restart"),
        ("a name of its own with account=…", "a name of its own with --account"),
        ('with start_date="2023-03-01" and end_date="2023-03-09"', "with --from 2023-03-01 and --to 2023-03-09"),
        ('confirm it once with key_renewed="3f9a21"', "confirm it once with --key-renewed 3f9a21"),
        ("Settings(allow_insecure_http=True) allows it", "--allow-insecure-http allows it"),
        ("pass Settings(engine_names=…)", "pass --engine-names"),
        ("(or pass force=True)", "(or pass --force)"),
        ("pass the key as api_key=… instead", "pass the key as SEOREP_API_KEY instead"),
        ("'page' has a place of its own: .page(…)", "'page' has a place of its own: --page"),
        ("raise Settings.max_body_bytes, or", "raise the setting max_body_bytes, or"),
        ("campaign 3: there is no such object", "campaign 3: there is no such object"),
        ("use `async with SeoRepClient(...) as client:`", "use `async with SeoRepClient(...) as client:`"),
    ],
)
def test_arguments_in_a_message_become_options(message: str, expected: str) -> None:
    assert in_shell_words(message) == expected


# --- The README's script, run by the shell with a `seorep` that ends as it is told


README = Path(__file__).parents[2] / "README.md"
(SCRIPT,) = re.findall(r"^```sh\n(#!/bin/sh\n.*?)^```", README.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
FIRST, AGAIN = "--quiet --restart", "--quiet --retry-failed"


def nightly(folder: Path, *codes: int) -> tuple[int, list[str]]:
    """Run the script; return its exit status, and what it ran: pulls, and waits between them."""
    stubs = {
        "seorep": 'echo "$SEOREP_API_KEY: $*" >> log; read code < codes; sed -i 1d codes; exit $code',
        "sleep": 'echo "sleep $*" >> log',
    }
    for name, lines in stubs.items():
        (folder / name).write_text(f"#!/bin/sh\n{lines}\n")
        (folder / name).chmod(0o755)
    (folder / "codes").write_text("".join(f"{code}\n" for code in codes))
    (folder / "environment").write_text("SEOREP_API_KEY=key\n")
    (folder / "nightly").write_text(SCRIPT.replace("/srv/seo", str(folder)))
    environment = {"PATH": f"{folder}:{os.environ['PATH']}"}
    ended = subprocess.run(["sh", folder / "nightly"], env=environment, check=False)
    said = (folder / "log").read_text().splitlines()
    pulls = [re.sub(r"^key: pull (.*) -o rankings\.parquet$", r"\1", line) for line in said]
    return ended.returncode, pulls


@pytest.mark.parametrize("code", [0, 1, 2, 3, 6, 130])
def test_a_permanent_failure_is_not_tried_again(tmp_path: Path, code: int) -> None:
    assert nightly(tmp_path, code) == (code, [FIRST])


@pytest.mark.parametrize("code", [4, 5, 7])
def test_a_transient_failure_is_retried_after_a_while(tmp_path: Path, code: int) -> None:
    assert nightly(tmp_path, code, 0) == (0, [FIRST, "sleep 600", AGAIN])


def test_the_last_try_gives_the_exit_status_at_once(tmp_path: Path) -> None:
    assert nightly(tmp_path, 5, 4, 4) == (4, [FIRST, "sleep 600", AGAIN, "sleep 1800", AGAIN])
