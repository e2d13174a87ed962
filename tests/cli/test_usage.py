"""What can't be meant is refused before anything is sent or written, and so is an option that is given twice."""

import re
from pathlib import Path
from typing import Any

import click
import pytest

from seorep_async import SeoRepClient
from seorep_async.session import Clock
from tests.cli.running import Seorep, command_of, commands, serving
from tests.export.reports import names_in

PYTHON_WORDS = re.compile(r"\b(None|True|False|Settings|self)\b|\b(?!key_command|key_file)[a-z]+(_[a-z]+)+\b|\w=\w")
"""What no message of the command says: arguments and values of Python."""


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("pul", "No such command"),
        ("pull", "SEOREP_BASE_URL and SEOREP_API_KEY must be set in the environment; or try --sandbox"),
        ("pull --api-key s3cret", "--api-key: everyone who lists processes can see a key in a command"),
        ("campaigns list --key=s3cret", "Set SEOREP_API_KEY, or use a --profile with key_command or key_file."),
        ("pull --campain 3", "--campain"),  # click's own words, which differ by version
        ("pull --seed 3 --rows older", "--seed, --rows: only with --sandbox"),
        ("pull --campaigns 3", "--campaigns: only with --sandbox. To choose campaigns, use --campaign."),
        ("pull --latency 0", "--latency: only with --sandbox"),
        ("pull --failing 3", "--failing: only with --sandbox"),
        ("pull --sandbox --feed weekly", "'weekly' is not one of"),
        ("pull --sandbox --from 1.2.2023", "'1.2.2023' is not a date such as 2023-01-31"),
        ("pull --sandbox --from 2023-02-01 --to 2023-01-01", "--from 2023-02-01 is after --to 2023-01-01"),
        ("pull --sandbox --from 2023-07-02", "is after --to 2023-06-30, the end of last month; give --to as well"),
        ("pull --sandbox --last 30", "'30' is not a period such as 30d, 4w or 3m"),
        ("pull --sandbox --last 0d", "'0d' is not a period"),
        (
            "pull --sandbox --last 9999m",
            "'9999m' is not a period such as 30d, 4w or 3m, up to 9999d, 999w or 999m",
        ),
        ("pull --sandbox --account=", "--account must be a name of 1 to 100 printable characters"),
        ("pull --sandbox --last 3m --month 2023-03", "--last and --month can't be combined; give one of them, or"),
        ("pull --sandbox --month-to-date --to 2023-07-01", "--month-to-date and --to can't be combined"),
        ("pull --sandbox --campaign 1,,2", "'' is not a campaign id"),
        (
            "pull --sandbox --campaign 1 --group Retail",
            "--campaign and --group can't be combined; choose campaigns by",
        ),
        ("pull --sandbox --campaigns-from no.txt", "--campaigns-from: can't read no.txt: No such file or directory"),
        ("pull --sandbox --campaigns-from .", "--campaigns-from: can't read .: Is a directory"),
        ("pull --sandbox --group=", "Invalid value for '--group': must not be empty."),
        ("pull --sandbox --campaign 0", "'0' is not a campaign id, an integer from 1 to 2147483647"),
        (
            "pull --sandbox --campaign Acme",
            "'Acme' is not a campaign id, an integer from 1 to 2147483647; `seorep campa",
        ),
        ("pull --sandbox --limit 0", "'0' is not an integer from 1 to 2147483647"),
        ("pull --sandbox --requests-per-second 0", "must be a number above 0 and up to 1e9 (requests a second), got 0"),
        ("pull --sandbox --attempt-timeout -1", "--attempt-timeout must be a number above 0 and up to 1e9 (seconds)"),
        (
            "pull --sandbox --engine-names a,b,c,d",
            "--engine-names: give three names for engineA, engineB and wmt, such",
        ),
        ("pull --sandbox --engine-names a,a,c", "--engine-names: the three names must differ"),
        ("pull --sandbox -o /proc/a.csv", "can't write /proc/a.csv: No such file or directory; name another folder"),
        ("pull --sandbox -o rankings", "the name must end in .csv, .jsonl, .parquet or .duckdb"),
        ("pull --sandbox -o - --format parquet", "'parquet' is not one of 'csv', 'jsonl'"),
        ("pull --sandbox -o - --force", "--force: not with -o -"),
        ("campaigns get seven", "'seven' is not an integer from 1 to 2147483647"),
        ("campaigns get 2147483648", "is not an integer from 1 to"),
        ("campaigns get", "Missing argument 'ID'"),
        ("campaigns create --url u", "Missing option '--company'"),
        ("campaigns list --limit x", "'x' is not an integer"),
        ("campaigns update 1 --request-encoding xml --url u", "'xml' is not one of"),
        ("keywords delete 1", "No such command"),
        ("backlinks list", "Missing option '--campaign-id'"),
        ("backlinks list --campaign-id 1 --status gone", "'gone' is not one of"),
        ("backlinks list --campaign-id 1 --date-string 2023-01-01 1.2.23", "'1.2.23' is not a date"),
        ("pull --sandbox --max-concurrency 0", "--max-concurrency must be an integer from 1 to 1024"),
        ("pull --sandbox --keywords -4", "--keywords must be between"),
        ("pull --sandbox --faults x=1%", "--faults: there is no kind 'x'"),
        ("pull --sandbox --rate-limit 0", "--rate-limit"),
        ("pull --sandbox --rate-limit 5,counts-refused", "--rate-limit: counts-refused must be given with"),
        ("pull --sandbox --forbidden 99", "--forbidden must hold ids of campaigns, 1 to 20, not 99"),
        ("pull --sandbox --shape round", "'round' is not one of"),
        ("pull --sandbox --out missing/a.csv", "there is no folder"),
        ("pull --sandbox --out .", "it is a folder"),
        ("pull --sandbox --out a.xlsx", "the name must end in .csv, .jsonl, .parquet or .duckdb"),
        ("pull --sandbox --format jsonl", "--format: only with -o -"),
        ("pull --sandbox -o - --restart", "--restart: not with -o -"),
        ("pull --sandbox -o - --json", "--json: not with -o -"),
        ("pull --sandbox -o - --feed campaign --feed campaign-by-date", "several feeds can't be written to stdout"),
        ("pull --sandbox --restart --retry-failed", "can't be combined; give one of them"),
    ],
)
def test_it_is_refused_with_2(seorep: Seorep, tmp_path: Path, arguments: str, said: str) -> None:
    ended = seorep(*arguments.split())
    assert ended.code == 2
    assert said in " ".join(ended.err.split())
    assert not PYTHON_WORDS.search(ended.err)
    assert "s3cret" not in ended.err
    assert names_in(tmp_path) == []


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("SEOREP_BASE_URL", "api.example.com", "SEOREP_BASE_URL needs a scheme and a host"),
        ("SEOREP_BASE_URL", "http://api.example.com", "must begin with https://"),
        ("SEOREP_BASE_URL", "http://api.example.com", "for a test network, --allow-insecure-http allows it"),
        ("SEOREP_BASE_URL", "https://api.example.com/v3", "SEOREP_BASE_URL must end before /v3"),
        ("SEOREP_BASE_URL", "https://user:s3cret@api.example.com", "must not hold credentials"),
        ("SEOREP_BASE_URL", "https://:s3cret@api.example.com", "pass the key as SEOREP_API_KEY instead"),
        ("SEOREP_API_KEY", "s3cret ", "SEOREP_API_KEY begins or ends with a space: strip it"),
        ("SEOREP_PROFILE", "acme", "there is no profile 'acme', as /"),
        ("SEOREP_BASE_URL", "", "SEOREP_BASE_URL must be set"),
        ("SEOREP_API_KEY", "s3cret\n", "holds a line break"),
        ("SEOREP_API_KEY", "", "SEOREP_API_KEY must be set"),
    ],
)
def test_a_wrong_environment_is_refused_with_2(
    seorep: Seorep, monkeypatch: pytest.MonkeyPatch, name: str, value: str, said: str
) -> None:
    monkeypatch.setenv("SEOREP_BASE_URL", "https://api.example.com")
    monkeypatch.setenv("SEOREP_API_KEY", "key")
    monkeypatch.setenv(name, value)
    ended = seorep("pull")
    assert ended.code == 2
    assert said in ended.err
    assert "s3cret" not in ended.err
    assert not PYTHON_WORDS.search(ended.err.replace(str(Path.cwd()), ""))


@pytest.mark.parametrize(
    ("options", "key", "path", "said", "code"),
    [
        ({}, "old", "", "Error: the API key was refused, or may not see this (status 403); check SEOREP_API_KEY or", 3),
        ({}, "sandbox", "/api", "Error: there is no such object (status 404); check the base URL\n", 2),
        ({"faults": "html=100%"}, "sandbox", "", "check the base URL", 5),
    ],
)
def test_what_the_service_refuses_says_what_to_check(
    seorep: Seorep,
    monkeypatch: pytest.MonkeyPatch,
    options: dict[str, Any],
    key: str,
    path: str,
    said: str,
    code: int,
) -> None:
    monkeypatch.setattr(SeoRepClient, "_clock", Clock(jitter=lambda: 0.0))  # eight attempts without a wait
    with serving(**options) as sandbox:
        monkeypatch.setenv("SEOREP_BASE_URL", f"{sandbox.base_url}{path}")
        monkeypatch.setenv("SEOREP_API_KEY", key)
        ended = seorep("pull")
    assert (ended.code, ended.err.count("\n")) == (code, 1)
    assert said in ended.err
    assert not PYTHON_WORDS.search(ended.err)


def test_a_port_that_is_taken_is_refused_with_2(seorep: Seorep) -> None:
    with serving() as sandbox:
        port = sandbox.base_url.rpartition(":")[2]
        ended = seorep("sandbox", "--port", port)
    assert ended.code == 2
    assert f"can't use port {port} (Address already in use); choose another with --port" in ended.err


# --- Given twice


def options(words: tuple[str, ...]) -> list[click.Option]:
    return [option for option in command_of(words).params if isinstance(option, click.Option) and not option.hidden]


def given(option: click.Option, spelling: str) -> list[str]:
    if option.is_flag:
        return [spelling]
    value = option.type.choices[0] if isinstance(option.type, click.Choice) else "3"
    return [spelling, *[value] * option.nargs]


@pytest.mark.parametrize("words", [words for words in commands() if words], ids="-".join)
def test_an_option_given_twice_is_refused(seorep: Seorep, words: tuple[str, ...]) -> None:
    for option in options(words):
        if not option.multiple:
            ended = seorep(*words, *given(option, option.opts[0]), *given(option, option.opts[-1]))
            assert (ended.code, ended.out == "") == (2, option.name != "json")  # which says so on stdout
            assert ended.err.splitlines()[-1].startswith(f"Error: {max(option.opts, key=len)}: given 2 times")


def test_repeatable_options_are_as_documented() -> None:
    repeatable = {option.name for words in commands() if words for option in options(words) if option.multiple}
    assert repeatable == {"feeds", "campaign", "month", "group", "failing", "forbidden", "param", "role"}


@pytest.mark.parametrize(
    "line",
    [
        "--last 30d --last=3m",
        "-o a.csv --out b.csv",
        "-oa.csv -ob.csv",
        "-qq",
        "-q --sandbox --quiet",
        "--quiet --sandbox --quiet --quiet",
    ],
)
def test_every_spelling_counts(seorep: Seorep, line: str) -> None:
    ended = seorep("pull", *line.split())
    assert ended.code == 2
    assert ": given " in ended.err.splitlines()[-1]


@pytest.mark.parametrize(
    "line",
    [
        "--sandbox --campaign 1 --campaign 2 --quiet -o -",
        "--sandbox --campaigns 2 --feed campaign --feed campaign-by-date --quiet",
        "--sandbox --campaign 1 --group --group",  # a value may look like an option
        "--quiet -- --quiet",
        "--quiet --quiet --help",
    ],
)
def test_what_is_no_repetition_is_not_called_one(seorep: Seorep, line: str) -> None:
    assert ": given " not in seorep("pull", *line.split()).err


def test_the_environment_and_an_option_are_no_repetition(seorep: Seorep, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEOREP_PROFILE", "acme")
    assert "there is no profile 'other'" in seorep("pull", "--profile", "other").err


def test_a_key_given_twice_is_refused_as_a_key(seorep: Seorep) -> None:
    ended = seorep("pull", "--month", "2022-13", "--key", "s3cret", "--api-key", "s3cret")
    assert "everyone who lists processes can see a key" in ended.err
    assert (ended.code, "s3cret" in ended.err) == (2, False)


def test_a_shell_completes_an_option_that_was_given() -> None:
    from click.shell_completion import ShellComplete

    from seorep_async.cli.application import seorep as command

    completion = ShellComplete(command, {}, "seorep", "_SEOREP_COMPLETE")
    words = ["pull", "--last", "30d", "--last", "3m"]
    assert "--sandbox" in {item.value for item in completion.get_completions(words, "--sand")}
