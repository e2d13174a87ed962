"""An account is found in arguments, in the environment or in a stored profile."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from seorep_async import SeoRepClient
from seorep_async.errors import ConfigurationError
from seorep_async.profiles import (
    Access,
    ReportEngines,
    config_file,
    find_access,
    load_profile,
    report_engines,
)
from seorep_async.secret import Secret
from seorep_async.settings import ArrayEncoding, EngineNames, Settings
from tests.session.calls import KEY
from tests.session.canary import assert_error_does_not_show_key

ADDRESS = 'base_url = "https://api.example.com"\n'
STORED = f"""
[default]
base_url = "https://default.example"
key = "default-key"

[acme]
base_url = "https://acme.example"
key = '{KEY}'
account = "Acme"
report_engines = "Google, Bing"
max_attempts = 3
call_timeout = "none"
array_encoding = "comma"
engine_names = "goo,bin,wmt"
"""
VARIABLES = ("SEOREP_BASE_URL", "SEOREP_API_KEY", "SEOREP_PROFILE", "SEOREP_REPORT_ENGINES")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of an empty configuration, in an environment that names no account."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "seorep").mkdir()
    return tmp_path / "seorep"


@pytest.fixture
def stored(folder: Path) -> Path:
    """A file with the profiles `default` and `acme`."""
    return write(folder, STORED)


@pytest.fixture
def variables(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the environment variables of a row of a table."""
    for name, value in request.param.items():
        monkeypatch.setenv(name, value)


def write(folder: Path, content: str | bytes) -> Path:
    file = folder / "config.toml"
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    file.chmod(0o600)
    return file


def summary(access: Access) -> tuple[object, str, str | None]:
    return access.base_url, str(access.api_key), access.profile


ENV = "https://env.example"
BOTH = {"SEOREP_BASE_URL": ENV, "SEOREP_API_KEY": "env-key"}
OF_ACME = ("https://acme.example", KEY, "acme")
OF_ENVIRONMENT = (ENV, "env-key", None)


# Variables, arguments, and the address, key and profile that are found.
@pytest.mark.usefixtures("stored", "variables")
@pytest.mark.parametrize(
    ("variables", "arguments", "access_summary"),
    [
        pytest.param({}, {}, ("https://default.example", "default-key", "default"), id="nothing"),
        pytest.param({"SEOREP_PROFILE": "acme"}, {}, OF_ACME, id="SEOREP_PROFILE"),
        pytest.param(BOTH, {}, OF_ENVIRONMENT, id="both variables"),
        pytest.param(
            BOTH | {"SEOREP_PROFILE": "acme"},
            {},
            OF_ENVIRONMENT,
            id="both variables beside SEOREP_PROFILE",
        ),
        pytest.param(BOTH, {"profile": "acme"}, OF_ACME, id="a profile beside both variables"),
        pytest.param(
            {"SEOREP_API_KEY": "env-key"},
            {"profile": "acme"},
            OF_ACME,
            id="a profile beside the key's variable",
        ),
        pytest.param(
            {"SEOREP_API_KEY": "env-key"},
            {"base_url": "https://given.example"},
            ("https://given.example", "env-key", None),
            id="an address, and the key's variable",
        ),
        pytest.param(
            {"SEOREP_BASE_URL": ENV},
            {"api_key": "given-key"},
            (ENV, "given-key", None),
            id="a key, and the address's variable",
        ),
        pytest.param(
            BOTH,
            {"base_url": "https://given.example", "api_key": "given-key"},
            ("https://given.example", "given-key", None),
            id="both beside both variables",
        ),
        pytest.param(
            {"SEOREP_PROFILE": "nobody"},
            {"base_url": "https://given.example", "api_key": "given-key"},
            ("https://given.example", "given-key", None),
            id="both beside an unknown SEOREP_PROFILE",
        ),
    ],
    indirect=["variables"],
)
def test_an_account_is_found_in_one_order(
    arguments: Mapping[str, Any], access_summary: tuple[object, str, str | None]
) -> None:
    assert summary(find_access(**arguments)) == access_summary


def assert_refused(file: Path, message: str, **arguments: Any) -> None:
    """Assert that no account is found, with one line that begins like the message."""
    with pytest.raises(ConfigurationError) as refused:
        find_access(**arguments)
    said = str(refused.value)
    assert said.startswith(message.replace("{file}", str(file)))
    assert ("\n" in said) is False
    assert len(said) < 1500
    assert_error_does_not_show_key(refused.value)


# Variables, arguments, and the beginning of the message that refuses them.
@pytest.mark.usefixtures("stored", "variables")
@pytest.mark.parametrize(
    ("variables", "arguments", "message"),
    [
        pytest.param(
            {"SEOREP_API_KEY": KEY},
            {},
            "SEOREP_API_KEY is given without SEOREP_BASE_URL: give both, or neither to use a",
            id="the key's variable alone",
        ),
        pytest.param(
            {"SEOREP_API_KEY": "", "SEOREP_PROFILE": "acme"},
            {},
            "SEOREP_API_KEY is given without SEOREP_BASE_URL: ",
            id="the key's variable, empty, beside SEOREP_PROFILE",
        ),
        pytest.param(
            {},
            {"api_key": Secret(KEY)},
            "api_key is given without SEOREP_BASE_URL: ",
            id="a key alone",
        ),
        pytest.param(
            {"SEOREP_BASE_URL": ENV},
            {},
            "SEOREP_BASE_URL is given without SEOREP_API_KEY: ",
            id="the address's variable alone",
        ),
        pytest.param(
            {},
            {"base_url": ENV},
            "base_url is given without SEOREP_API_KEY: ",
            id="an address alone",
        ),
        pytest.param(
            {},
            {"profile": "acme", "base_url": ENV},
            "profile and base_url=… can't be combined: a profile already has an address and a key",
            id="a profile beside an address",
        ),
        pytest.param(
            {},
            {"profile": "acme", "api_key": Secret(KEY)},
            "profile and api_key=… can't be combined: ",
            id="a profile beside a key",
        ),
        pytest.param(
            {"SEOREP_PROFILE": ""}, {}, "there is no profile ''", id="an empty SEOREP_PROFILE"
        ),
        pytest.param(
            {},
            {"profile": "acm"},
            "there is no profile 'acm' in {file}; it has: default, acme. Did you mean acme? "
            "`seorep login NAME` makes one",
            id="an unknown profile",
        ),
    ],
    indirect=["variables"],
)
def test_half_an_account_is_refused_with_advice(
    stored: Path, arguments: Mapping[str, Any], message: str
) -> None:
    assert_refused(stored, message, **arguments)


@pytest.mark.usefixtures("folder")
def test_without_any_account_the_error_says_every_way() -> None:
    with pytest.raises(ConfigurationError) as refused:
        find_access()
    assert str(refused.value) == (
        "no address and no API key: run `seorep login` once, "
        "set SEOREP_BASE_URL and SEOREP_API_KEY, or pass base_url and api_key"
    )


@pytest.mark.usefixtures("stored")
def test_a_profile_has_account_and_settings() -> None:
    access = find_access(profile="acme")
    assert access.account == "Acme"
    assert access.make_settings() == Settings(
        max_attempts=3,
        call_timeout=None,
        array_encoding=ArrayEncoding.COMMA,
        engine_names=EngineNames(engine_a="goo", engine_b="bin", webmaster_tools="wmt"),
    )


@pytest.mark.usefixtures("stored", "variables")
@pytest.mark.parametrize("variables", [BOTH | {"SEOREP_PROFILE": "acme"}], indirect=True)
def test_the_environment_brings_no_settings_of_a_profile() -> None:
    access = find_access()
    assert access.account is None
    assert access.make_settings() == Settings()


@pytest.mark.usefixtures("stored")
def test_a_client_has_account_and_settings_of_its_profile() -> None:
    assert SeoRepClient().account == "default.example"
    client = SeoRepClient(profile="acme")
    assert client.base_url == "https://acme.example"
    assert client.account == "Acme"
    assert client.settings.max_attempts == 3
    mine = SeoRepClient(profile="acme", settings=Settings(max_concurrency=2), account="mine")
    assert mine.settings == Settings(max_concurrency=2)
    assert mine.account == "mine"


def test_a_wrong_key_names_its_profile(folder: Path) -> None:
    write(folder, f"[acme]\n{ADDRESS}key = ' {KEY}'\nmax_attempts = 0\n")
    with pytest.raises(ConfigurationError, match="key of profile acme begins or ends") as refused:
        SeoRepClient(profile="acme", settings=Settings())
    assert_error_does_not_show_key(refused.value)


@pytest.mark.usefixtures("stored")
def test_a_found_key_is_in_no_repr() -> None:
    assert KEY not in repr(find_access(profile="acme"))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "max_attempts = 0",
            "max_attempts of profile acme must be an integer from 1 to 100, got 0",
        ),
        (
            f"max_attempts = {'9' * 4000}",
            "max_attempts of profile acme must be an integer",
        ),
        (
            "call_timeout = 'never'",
            "call_timeout of profile acme must be a number above 0 and up to 1e9 "
            "(seconds, or \"none\"), got 'never'",
        ),
        (
            "array_encoding = 'csv'",
            "array_encoding of profile acme must be one of brackets, repeat, comma, got 'csv'",
        ),
        (
            "array_encoding = ['comma']",
            "array_encoding of profile acme must be one of",
        ),
        (
            "engine_names = {engine_c = 'x'}",
            "engine_names of profile acme must be three names for engineA, engineB and wmt, "
            "such as goo,bin,wmt",
        ),
        (
            "allow_insecure_http = 1",
            "allow_insecure_http of profile acme must be true or false, got 1",
        ),
    ],
    ids=lambda text: text[:20],
)
def test_a_wrong_setting_names_its_profile(folder: Path, line: str, message: str) -> None:
    write(folder, f"[acme]\n{ADDRESS}key = '{KEY}'\n{line}\n")
    with pytest.raises(ConfigurationError) as refused:
        find_access(profile="acme").make_settings()
    assert str(refused.value).startswith(message)


# --- Files and profiles that can't be used: one line, without the key

NO_FILE = "it is not a regular file, or is larger than 1024 KiB"
WHOLE = f"[acme]\n{ADDRESS}key = '{KEY}'\n"
DIGITS = "9" * 5000


# The content of the file, and the beginning of the message.
@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(
            "",
            "there is no profile 'acme' in {file}; it has: none. `seorep login NAME` makes one",
            id="empty",
        ),
        pytest.param(
            "[other]\n[third]",
            "there is no profile 'acme' in {file}; it has: other, third.",
            id="others",
        ),
        pytest.param("acme = 3", "there is no profile 'acme'", id="no table"),
        pytest.param("acme = []", "there is no profile 'acme'", id="array"),
        pytest.param("[[acme]]\nkey = 'k'", "there is no profile 'acme'", id="array of tables"),
        pytest.param('["acme\\n"]', "there is no profile 'acme'", id="name with a line break"),
        pytest.param("x = 0x" + "f" * 5000, "there is no profile 'acme'", id="hexadecimal"),
        pytest.param(f"x = 1e{DIGITS}", "there is no profile 'acme'", id="large float"),
        pytest.param("[acme", "can't read {file}: ", id="cut"),
        pytest.param(
            f"[acme]\n{ADDRESS}key = {KEY}", "can't read {file}: ", id="key without quotes"
        ),
        pytest.param(f"{WHOLE}key = '{KEY}'", "can't read {file}: ", id="key twice"),
        pytest.param(
            f'{WHOLE}user_agent = "C:\\seo"',
            "can't read {file}: Unescaped '\\' in a string (at line 4, column 19)",
            id="backslash",
        ),
        pytest.param(f'{WHOLE}user_agent = "C:\\Users"', "can't read {file}: ", id="user's folder"),
        pytest.param(
            f"{WHOLE}account = 's\xe9o'".encode("latin-1", "replace"),
            "can't read {file}: it is not UTF-8",
            id="Latin-1",
        ),
        pytest.param(WHOLE.encode("utf-16"), "can't read {file}: it is not UTF-8", id="UTF-16"),
        pytest.param("a = " + "[" * 100_000, "can't read {file}: ", id="deep arrays"),
        pytest.param("a = " + "{a = " * 100_000, "can't read {file}: ", id="deep tables"),
        pytest.param(
            f"x = {DIGITS}", "can't read {file}: a number in it is too long, or", id="long number"
        ),
        pytest.param(f"{WHOLE}max_attempts = {DIGITS}", "can't read {file}: ", id="long setting"),
        pytest.param("#" * 2_000_000, f"can't read {{file}}: {NO_FILE}", id="huge"),
        pytest.param(
            f"{WHOLE}base_uri = 'x'",
            "profile acme: there is no setting 'base_uri'. Did you mean base_url?",
            id="unknown setting",
        ),
        pytest.param(
            f"{WHOLE}sk-1234567 = 'x'",
            "profile acme: there is no setting of that name.",
            id="a key as a name",
        ),
        pytest.param(
            f"{WHOLE}{'x' * 100_000} = 3",
            "profile acme: there is no setting 'xxx",
            id="long unknown setting",
        ),
        pytest.param(
            f"[acme]\n{ADDRESS}key_command = 'pass show acme'",
            "profile acme: key_command is no longer supported; delete that line, set",
            id="key_command",
        ),
        pytest.param(
            f"[acme]\nkey = '{KEY}'",
            "profile acme has no base_url: run `seorep login acme`, or add it to {file}",
            id="no address",
        ),
        pytest.param(
            f"[acme]\nbase_url = ''\nkey = '{KEY}'",
            "profile acme has no base_url: ",
            id="empty address",
        ),
        pytest.param(
            f"[acme]\nbase_url = 5\nkey = '{KEY}'",
            "profile acme: base_url must be a string",
            id="address of another type",
        ),
        pytest.param(f"[acme]\n{ADDRESS}", "profile acme has no key: ", id="no key"),
        pytest.param(f"[acme]\n{ADDRESS}key = ''", "profile acme has no key: ", id="empty key"),
        pytest.param(
            f"[acme]\n{ADDRESS}key = 5",
            "profile acme: key must be a string",
            id="key of another type",
        ),
    ],
)
def test_a_wrong_file_is_refused_in_one_line(
    folder: Path, content: str | bytes, message: str
) -> None:
    assert_refused(write(folder, content), message, profile="acme")


def test_a_deep_table_beside_a_profile_changes_nothing(folder: Path) -> None:
    write(folder, "a." * 500 + "a = 1\n" + WHOLE)
    assert find_access(profile="acme").api_key == KEY


@pytest.mark.parametrize(
    ("make", "message"),
    [
        pytest.param(Path.mkdir, f"can't read {{file}}: {NO_FILE}", id="folder"),
        pytest.param(
            lambda file: os.mkfifo(file, 0o600), f"can't read {{file}}: {NO_FILE}", id="pipe"
        ),
        pytest.param(
            lambda file: file.symlink_to("/dev/zero"),
            f"can't read {{file}}: {NO_FILE}",
            id="device without end",
        ),
        pytest.param(
            lambda file: None, "there is no profile 'acme' in {file}; it has: none.", id="missing"
        ),
        pytest.param(
            lambda file: file.symlink_to("nowhere"),
            "there is no profile 'acme'",
            id="link to nothing",
        ),
        pytest.param(
            lambda file: file.symlink_to(file), "can't read {file}: ", id="link to itself"
        ),
    ],
)
def test_a_profile_path_that_is_not_a_file_is_refused_at_once(
    folder: Path, make: Callable[[Path], object], message: str
) -> None:
    file = folder / "config.toml"
    make(file)
    assert_refused(file, message, profile="acme")


@pytest.mark.parametrize(
    ("mode", "lines", "is_refused"),
    [
        (0o600, f"key = '{KEY}'", False),
        (0o400, f"key = '{KEY}'", False),
        (0o644, "account = 'Acme'", False),
        (0o644, f"key = '{KEY}'", True),
        (0o640, f"key = '{KEY}'", True),
        (0o620, "account = 'Acme'", True),
        (0o602, "account = 'Acme'", True),
    ],
)
def test_a_file_that_others_can_use_is_refused(
    folder: Path, mode: int, lines: str, is_refused: bool
) -> None:
    write(folder, f"[acme]\n{lines}\n").chmod(mode)
    if is_refused:
        with pytest.raises(ConfigurationError, match="chmod 600"):
            load_profile("acme")
    else:
        assert load_profile("acme")


def test_a_byte_order_mark_is_ignored_in_profiles(folder: Path) -> None:
    write(folder, f"\ufeff{WHOLE}".replace("\n", "\r\n"))
    assert find_access(profile="acme").api_key == KEY


FIELDS = ["base_url", "key", "account", "report_engines", "x"]
FIELDS += [field.name for field in attrs.fields(Settings)]
VALUES = [
    "5",
    "-1",
    "1.5",
    "nan",
    "inf",
    "true",
    "''",
    "'none'",
    "'a b'",
    "'https://api.example.com/\N{GRINNING FACE}'",
    '"\\u0000\\u001b"',
    "'comma'",
    "[]",
    "['Google', 5]",
    "{a = 1}",
    "1979-05-27",
    "07:32:00",
]
IN_FOLDER = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@IN_FOLDER
@given(st.dictionaries(st.sampled_from(FIELDS), st.sampled_from(VALUES), max_size=6))
def test_a_profile_of_any_values_makes_a_client_or_is_refused(
    folder: Path, values: Mapping[str, str]
) -> None:
    usual = {"base_url": "'https://api.example.com'", "key": f"'{KEY}'"}
    lines = [f"{name} = {value}" for name, value in {**usual, **values}.items()]
    write(folder, "\n".join(["[acme]", *lines]))
    try:
        SeoRepClient(profile="acme")
    except ConfigurationError as error:
        assert_error_does_not_show_key(error)


@IN_FOLDER
@given(st.binary())
def test_a_file_of_any_bytes_has_no_account_or_is_refused(folder: Path, content: bytes) -> None:
    write(folder, content)
    with pytest.raises(ConfigurationError):
        find_access()


# --- The folder


@pytest.fixture
def without_config_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)


@pytest.mark.usefixtures("without_config_home", "variables")
@pytest.mark.parametrize(
    ("variables", "beginning"),
    [
        pytest.param({"HOME": "/home/a"}, "/home/a/.config/seorep/config.toml", id="HOME"),
        pytest.param(
            {"HOME": "/home/a", "XDG_CONFIG_HOME": "/etc/a"},
            "/etc/a/seorep/config.toml",
            id="XDG_CONFIG_HOME",
        ),
        pytest.param(
            {"HOME": "/home/a", "XDG_CONFIG_HOME": ""},
            "/home/a/.config/seorep/config.toml",
            id="empty XDG_CONFIG_HOME",
        ),
        pytest.param(
            {"HOME": ""},
            "the folder of profiles must have an absolute path, got '.config'",
            id="empty HOME",
        ),
        pytest.param(
            {"HOME": "/home/a", "XDG_CONFIG_HOME": "a"},
            "the folder of profiles must have an absolute path, got 'a'",
            id="relative XDG_CONFIG_HOME",
        ),
    ],
    indirect=["variables"],
)
def test_the_folder_of_profiles_is_absolute_or_refused(beginning: str) -> None:
    try:
        said = str(config_file())
    except ConfigurationError as error:
        said = str(error)
    assert said.startswith(beginning)


# --- Names of search engines for a report

OF_VARIABLE = ReportEngines(["A", "B"], "SEOREP_REPORT_ENGINES")
OF_PROFILE = ReportEngines(["Google", "Bing"], "report_engines of profile acme")


@pytest.mark.usefixtures("stored", "variables")
@pytest.mark.parametrize(
    ("variables", "profile", "engines"),
    [
        pytest.param({}, None, None, id="nothing"),
        pytest.param({"SEOREP_PROFILE": "acme"}, None, OF_PROFILE, id="SEOREP_PROFILE"),
        pytest.param({"SEOREP_REPORT_ENGINES": "A, B"}, None, OF_VARIABLE, id="a variable"),
        pytest.param({"SEOREP_REPORT_ENGINES": ""}, None, None, id="an empty variable"),
        pytest.param(
            {"SEOREP_REPORT_ENGINES": "A, B", "SEOREP_PROFILE": "acme"},
            None,
            OF_VARIABLE,
            id="a variable beside SEOREP_PROFILE",
        ),
        pytest.param(
            {"SEOREP_REPORT_ENGINES": "A, B"},
            "acme",
            OF_PROFILE,
            id="a profile beside the variable",
        ),
        pytest.param(
            {"SEOREP_REPORT_ENGINES": "A, B"},
            "default",
            OF_VARIABLE,
            id="a profile without names beside the variable",
        ),
        pytest.param(
            BOTH | {"SEOREP_PROFILE": "acme"}, None, None, id="an account in the environment"
        ),
    ],
    indirect=["variables"],
)
def test_a_report_finds_the_names_of_its_engines(
    profile: str | None, engines: ReportEngines | None
) -> None:
    assert report_engines(profile) == engines
