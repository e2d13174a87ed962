"""What the commands write of resources; what they refuse, and what they say and exit with when the service fails."""

import csv
import io
import json
import time
from typing import Any

import pytest
from seorep_async.cli.terminal import formatted_one, table_of_many, table_of_one

from seorep_async import InvalidRequestError
from seorep_async.cli.exit_codes import service_message
from seorep_async.cli.options import OutputFormat, field_names
from seorep_async.models import Campaign, User
from seorep_async.session import Clock
from tests.cli.running import KEY, Seorep, process

HOSTILE = "a\x1b[31m\x9b2J\u202eb\r\nc"


def campaign(**values: Any) -> Campaign:
    return Campaign(**{"id": 7, "url": "https://a.example", "company": "A", **values})


def written(kind: OutputFormat, one: Any, *columns: str) -> str:
    return formatted_one(one, columns or field_names(type(one)), kind, with_empty=bool(columns))


# --- Formats


@pytest.mark.parametrize("kind", OutputFormat)
def test_a_password_is_never_written(kind: OutputFormat) -> None:
    text = written(kind, User(id=1, username="a", password="sesame"))
    assert "password" not in text
    assert "sesame" not in text


def test_unknown_fields_stand_beside_the_others() -> None:
    one = campaign(extra={"type": "real", "nested": {"a": [1, None]}})
    found = json.loads(written(OutputFormat.JSON, one))
    assert (found["type"], found["nested"], "extra" in found) == ("real", {"a": [1, None]}, False)


def test_unknown_fields_with_a_known_name_are_under_extra() -> None:
    one = campaign(extra={"engine_a_cid": "wire", "extra": 1, "type": "real"})
    found = json.loads(written(OutputFormat.JSON, one))
    assert found["extra"] == {"engine_a_cid": "wire", "extra": 1}
    assert (found["engine_a_cid"], found["type"]) == (None, "real")


# --- Control characters


@pytest.mark.parametrize("kind", [OutputFormat.TABLE, OutputFormat.JSON, OutputFormat.JSON_LINES])
def test_control_characters_do_not_come_through(kind: OutputFormat) -> None:
    text = written(kind, campaign(company=HOSTILE, extra={HOSTILE: HOSTILE}))
    assert text.replace("\n", "").isprintable()


def test_control_characters_survive_in_json_as_data() -> None:
    text = written(OutputFormat.JSON, campaign(company=HOSTILE + "\U000e0041é"))
    assert json.loads(text)["company"] == HOSTILE + "\U000e0041é"
    assert "é" in text


def test_csv_is_verbatim_except_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(csv.reader(io.StringIO(written(OutputFormat.CSV, campaign(company=HOSTILE), "company"), "")))[1] == [
        HOSTILE
    ]
    monkeypatch.setattr("seorep_async.cli.terminal.stdout_is_terminal", lambda: True)
    text = written(OutputFormat.CSV, campaign(company=HOSTILE), "company")
    assert text.replace("\r\n", "").isprintable()


# --- Tables


@pytest.fixture
def wide_80(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let stdout be a terminal of 80 columns without colours."""
    monkeypatch.setattr("seorep_async.cli.terminal.stdout_is_terminal", lambda: True)
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("COLUMNS", "80")


@pytest.mark.usefixtures("wide_80")
def test_a_table_wraps_between_words_and_cuts_nothing() -> None:
    company = "The Long and Winding Roofing, Guttering and Chimney Company of North Yorkshire"
    text = table_of_many([campaign(id=123456789, company=company, url="https://y.example")], ["id", "company", "url"])
    assert max(map(len, text.splitlines())) <= 80
    words = text.split()
    assert set(company.split()) <= set(words)
    assert {"123456789", "https://y.example"} <= set(words)


@pytest.mark.usefixtures("wide_80")
def test_a_word_that_is_wider_than_its_column_is_folded() -> None:
    url = "https://y.example/" + "y" * 200
    text = table_of_one(campaign(url=url), ["id", "url"], with_empty=False)
    assert "".join(line[5:] for line in text.splitlines()[1:]) == url


def test_wide_letters_take_two_cells() -> None:
    header, line = table_of_many([campaign(company="花屋", url="u")], ["company", "url"]).splitlines()
    assert header.index("url") == len("company") + 2
    assert line == "花屋     u"


def test_numbers_are_right_aligned_and_none_is_a_dash() -> None:
    items = [campaign(account_id=5), campaign(id=12, scope="")]
    lines = table_of_many(items, ["id", "account_id", "scope"]).splitlines()
    assert lines == ["id  account_id  scope", " 7           5  -", "12           -"]


# --- Failures


def test_a_failing_page_leaves_no_half_document(seorep: Seorep, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seorep_async.session.clock.SYSTEM", Clock(jitter=lambda: 0.0))
    with seorep.account(campaigns=200, faults="500s=60%"):
        for _ in range(5):
            ended = seorep("campaigns", "list", "--limit", 1, "--json")
            if ended.code:
                break
    assert (ended.code, ended.out) == (5, "")


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ('{"status":"error","code":409,"message":"taken"}', "taken"),
        ('{"error": {"message": "bad url", "code": "E7"}}', "bad url"),
        ('{"status":"error","results":{"messages":["one","two"]}}', "one; two"),
        ('{"errors": {"url": ["is empty"], "company": "is short"}}', "url: is empty; company: is short"),
        ('{"url": ["is empty"]}', "url: is empty"),
        ('["no"]', "no"),
        ("plain words", "plain words"),
        ("<html><body>Nope</body></html>", None),
        ('{"message": "cut o…', None),
        ("{}", None),
        (None, None),
        ('{"message": "\\u001b[31mred"}', "\N{REPLACEMENT CHARACTER}[31mred"),
    ],
)
def test_the_service_is_quoted_in_one_readable_line(body: str | None, said: str | None) -> None:
    assert service_message(InvalidRequestError("the service refused", status=400, body_excerpt=body)) == said


def test_a_quote_that_the_message_holds_is_left_out() -> None:
    error = InvalidRequestError("the service says: taken", status=400, body_excerpt='{"message": "taken"}')
    assert service_message(error) is None


def test_an_interrupted_write_says_that_it_may_have_happened(seorep: Seorep) -> None:
    update = ("campaigns", "update", "2", "--company", "New")
    with seorep.account(latency=100.0) as sandbox, process(*update) as running:
        while not sandbox.stats.requests:
            assert running.poll() is None
            time.sleep(0.01)
        running.terminate()
        out, err = running.communicate()
    assert (running.returncode, out) == (130, "")
    assert "Interrupted; campaign 2 may have been changed: check before you repeat it.\n" in err


def test_the_key_is_nowhere_in_the_output(seorep: Seorep) -> None:
    with seorep.account(api_key=KEY):
        every: list[Any] = [seorep("campaigns", "list", "--json"), seorep("users", "get", 99), seorep("users", "list")]
    assert KEY not in json.dumps([(ended.out, ended.err) for ended in every])
