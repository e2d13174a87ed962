"""Which service, key and settings a command uses: options, profiles, the environment; and `seorep doctor`."""

import base64
import datetime as dt
import os
import stat
import subprocess
import time
from pathlib import Path
from typing import Any

import attrs
import click
import pytest
from seorep_async.cli.connection import Connection, config_file, connect
from tests.export.s3 import Bucket

from seorep_async import EngineNames, FeedSearchParam, RequestEncoding, Settings
from seorep_async.cli.doctor import Level, compare_clocks
from tests.cli.running import KEY, NO_OPTIONS, Seorep, command_of, commands, process, serving

ADDRESS = 'base_url = "https://api.example.com"'


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for name in ("SEOREP_BASE_URL", "SEOREP_API_KEY", "SEOREP_REQUEST_ENCODING"):
        monkeypatch.delenv(name, raising=False)
    config_file().parent.mkdir()
    return config_file()


def write(file: Path, content: str, mode: int = 0o600) -> Path:
    file.write_text(content, encoding="utf-8")
    file.chmod(mode)
    return file


def connected(**options: Any) -> Connection:
    return connect({**NO_OPTIONS, **options})


def refused(**options: Any) -> str:
    with pytest.raises(click.ClickException) as caught:
        connected(**options).client()
    assert KEY not in caught.value.message
    return caught.value.message


def test_the_configuration_file_is_in_the_users_folder(config: Path, tmp_path: Path) -> None:
    assert config == tmp_path / "seorep" / "config.toml"


def test_a_profile_replaces_the_environment(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEOREP_BASE_URL", "https://other.example.com")
    monkeypatch.setenv("SEOREP_API_KEY", "other")
    monkeypatch.setenv("ACME_KEY", KEY)
    write(config, f'[acme]\n{ADDRESS}\naccount = "Acme"\nkey_env = "ACME_KEY"\n', 0o644)
    found = connected(profile="acme")
    assert (found.base_url, found.api_key, found.account) == ("https://api.example.com", KEY, "Acme")


def test_no_repr_shows_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEOREP_BASE_URL", f"https://user:{KEY}@api.example.com")
    monkeypatch.setenv("SEOREP_API_KEY", KEY)
    found = connected()
    assert KEY not in repr(found)
    assert KEY not in repr(found.api_key)


# --- Keys


@pytest.mark.parametrize(
    "line",
    [
        f'key = "{KEY}"',
        "key_command = 'printf \"%s\\\\nuser: x\" s3cret-k3y'",
        'key_command = ["echo", "s3cret-k3y"]',
        'key_file = "acme.key"',
        'key_file = "{file}"',
    ],
)
def test_a_key_is_found_where_a_profile_says(config: Path, line: str) -> None:
    file = write(config.with_name("acme.key"), f"{KEY}\r\n")
    write(config, f"[acme]\n{ADDRESS}\n{line.replace('{file}', str(file))}\n")
    assert connected(profile="acme").api_key == KEY


@pytest.mark.parametrize("bit", [stat.S_IRGRP, stat.S_IWGRP, stat.S_IROTH, stat.S_IWOTH])
def test_a_key_that_others_can_read_or_change_is_refused(config: Path, tmp_path: Path, bit: int) -> None:
    file = write(tmp_path / "key", KEY, 0o600 | bit)
    write(config, f'[acme]\n{ADDRESS}\nkey_file = "{file}"\n')
    assert f"others can read or change {file}; run: chmod 600 {file}" in refused(profile="acme")
    write(config, f'[acme]\n{ADDRESS}\nkey = "{KEY}"\n', 0o600 | bit)
    assert f"others can read or change {config}; run: chmod 600 {config}" in refused(profile="acme")


@pytest.mark.parametrize("mode", [0o620, 0o602])
def test_a_profile_that_others_can_change_is_refused(config: Path, mode: int) -> None:
    write(config, f'[acme]\n{ADDRESS}\nkey_env = "ACME_KEY"\n', mode)
    assert f"others can change {config}" in refused(profile="acme")


@pytest.mark.skipif(os.name == "nt" or os.getuid() != 0, reason="only root can give files away")
def test_a_profile_with_options_of_a_store_is_the_owners(config: Path) -> None:
    options = 'storage_options = {region = "eu-west-1", secret_access_key = "s"}'
    write(config, f'[acme]\n{ADDRESS}\nkey_command = "echo k"\n{options}\n', 0o644)
    assert f"others can read or change {config}" in refused(profile="acme")
    config.chmod(0o600)
    found = connected(profile="acme")
    assert found.storage_options == {"region": "eu-west-1", "secret_access_key": "s"}
    assert "eu-west-1" not in repr(found)


def test_a_profile_pulls_into_its_object_store(seorep: Seorep, bucket: Bucket) -> None:
    with serving(api_key=KEY) as sandbox:
        config_file().parent.mkdir(parents=True, exist_ok=True)
        options = ", ".join(f"{name} = '{value}'" for name, value in bucket.server.options.items())
        key = f"base_url = '{sandbox.base_url}'\nkey = '{KEY}'\nstorage_options = {{{options}}}\n"
        write(config_file(), f"[acme]\n{key}")
        assert seorep("pull", "--profile", "acme", "--quiet", "-o", f"{bucket.url}/a.csv").code == 0
        assert seorep("pull", "--profile", "acme", "--quiet", "-o", "a.csv").code == 0
        checked = seorep("doctor", "--profile", "acme")
    assert bucket.objects()["a.csv"]
    assert "storage-options" in checked.err
    assert not any(value in checked.err for name, value in bucket.server.options.items() if "secret" in name)


def test_a_profile_of_another_user_is_refused(config: Path) -> None:
    write(config, f'[acme]\n{ADDRESS}\nkey = "{KEY}"\n')
    os.chown(config, 12345, -1)
    assert "belongs to another user" in refused(profile="acme")


# --- Settings


def test_options_win_over_profiles_and_those_over_variables(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEOREP_REQUEST_ENCODING", "query")
    monkeypatch.setenv("SEOREP_ARRAY_ENCODING", "comma")
    more = "max_attempts = 3\nattempt_timeout = 9.5\nrequest_encoding = 'json'\nfeed_search_param = 'search'"
    write(config, f"[acme]\n{ADDRESS}\nkey = 'k'\n{more}\nengine_names = {{ engine_a = 'goo' }}\n")
    found = connected(profile="acme", attempt_timeout=4.0, base_url="https://b.example.com")
    assert (found.settings.max_attempts, found.settings.attempt_timeout) == (3, 4.0)
    assert found.settings.request_encoding is RequestEncoding.JSON
    assert found.settings.feed_search_param is FeedSearchParam.SEARCH
    assert found.settings.engine_names == EngineNames(engine_a="goo")
    assert found.base_url == "https://b.example.com"
    assert found.sources["attempt_timeout"] == "--attempt-timeout"
    assert found.sources["max_attempts"] == "profile acme"
    assert found.sources["array_encoding"] == "SEOREP_ARRAY_ENCODING"


def test_every_setting_can_stand_in_a_profile(config: Path) -> None:
    values = {
        "engine_names": '{ engine_a = "goo" }',
        "request_encoding": '"json"',
        "array_encoding": '"comma"',
        "feed_search_param": '"filter"',
        "call_timeout": '"none"',
        "requests_per_second": "2.5",
        "allow_insecure_http": "true",
        "user_agent": '"a"',
    }
    names = [field.name for field in attrs.fields(Settings)]
    lines = "".join(f"{name} = {values.get(name, 1024)}\n" for name in names if name != "max_attempts")
    write(config, f"[acme]\n{ADDRESS}\nkey = 'k'\nmax_attempts = 3\n{lines}")
    found = connected(profile="acme")
    assert [name for name in names if getattr(found.settings, name) == getattr(Settings(), name)] == []
    assert {found.sources[name] for name in names} == {"profile acme"}
    assert found.settings.call_timeout is None


# --- Commands


@pytest.mark.parametrize("out", ["a.csv", "a.jsonl", "a.parquet", "a.duckdb"])
def test_the_key_is_in_no_output_and_no_file_of_a_pull(
    seorep: Seorep, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, out: str
) -> None:
    with serving(api_key=KEY, failing={2: 404}) as sandbox:
        monkeypatch.setenv("SEOREP_BASE_URL", sandbox.base_url)
        monkeypatch.setenv("SEOREP_API_KEY", KEY)
        ended = seorep("pull", "-o", out, "--json")
        assert (ended.code, KEY in ended.out + ended.err) == (4, False)
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {"checkpoint", out} <= {path.name for path in written}
    forms = KEY.encode(), base64.b64encode(KEY.encode()), base64.b64encode(f":{KEY}".encode())
    assert [path.name for path in written if any(form in path.read_bytes() for form in forms)] == []


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="processes are listed otherwise")
def test_the_key_is_in_no_list_of_processes(config: Path, tmp_path: Path) -> None:
    """The command that gives the key lists the processes, and so do we while the service is asked with the key."""
    listing = "cat /proc/[0-9]*/cmdline | tr '\\000' ' '"
    script = write(tmp_path / "keys", f"#!/bin/sh\n{listing} >> processes\ncat {config.with_name('acme.key')}\n", 0o700)
    write(config.with_name("acme.key"), KEY)
    with serving(api_key=KEY, campaigns=4000, latency=0.3) as sandbox:
        write(config, f"[acme]\nbase_url = '{sandbox.base_url}'\nkey_command = '{script}'\n")
        environment = {**os.environ, "XDG_CONFIG_HOME": str(config.parents[1])}
        with process("pull", "--profile", "acme", cwd=tmp_path, env=environment) as running:
            while 200 not in sandbox.stats.per_status:
                assert running.poll() is None
                time.sleep(0.01)
            with (tmp_path / "processes").open("a") as file:
                subprocess.run(["sh", "-c", listing], stdout=file, stderr=subprocess.DEVNULL, check=False)
    listed = (tmp_path / "processes").read_text(errors="replace")
    assert listed.count("pull --profile acme") >= 2
    assert KEY not in listed


def test_no_option_takes_a_key_or_a_password() -> None:
    names = {
        option
        for words in commands()
        if words not in ((), ("sandbox",))
        for parameter in command_of(words).params
        if not getattr(parameter, "hidden", False) and not getattr(parameter, "is_flag", False)
        for option in parameter.opts
    }
    assert {name for name in names if {"key", "password", "token", "secret"} & set(name.split("-"))} == {
        "--key-from",  # where a key is, not the key
        "--key-renewed",  # a mark of it
    }


# --- `seorep doctor`


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("https://no-such-host.invalid", "no-such-host.invalid:443: "),
        ("http://127.0.0.1:9/s\u00e9o", "FAIL  connection"),
        ("https://n\u00f6-such-host.invalid", "FAIL  connection"),
    ],
)
def test_an_unreachable_service_is_5(seorep: Seorep, monkeypatch: pytest.MonkeyPatch, address: str, said: str) -> None:
    monkeypatch.setenv("SEOREP_API_KEY", "key")
    ended = seorep("doctor", "--base-url", address)
    assert ended.code == 5
    assert said in ended.err


@pytest.mark.parametrize(
    ("date", "level", "words"),
    [
        ("Sat, 01 Jul 2023 12:00:30 GMT", Level.OK, "agrees"),
        ("Sat, 01 Jul 2023 11:00:00 GMT", Level.NOTE, "3,600 s ahead of the service's"),
        ("Sat, 01 Jul 2023 12:02:00 GMT", Level.NOTE, "120 s behind the service's"),
        ("once", Level.NOTE, "does not send its time"),
        ("Sat, 01 Jul 99999999999999999999 12:00:30 GMT", Level.NOTE, "does not send its time"),
        (None, Level.NOTE, "does not send its time"),
    ],
)
def test_clocks_are_compared(date: str | None, level: Level, words: str) -> None:
    found, said = compare_clocks(date, dt.datetime(2023, 7, 1, 12, 0, tzinfo=dt.UTC))
    assert found is level
    assert words in said
