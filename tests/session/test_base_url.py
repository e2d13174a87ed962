"""The address of the service: checked before any I/O."""

import pytest
from yarl import URL

from seorep_async.session import BaseURL, base_url_problem
from seorep_async.session.base_url import origin_of

GOOD = [
    ("https://api.example.com", "https://api.example.com"),
    ("https://api.example.com/", "https://api.example.com"),
    ("https://api.example.com:8443", "https://api.example.com:8443"),
    ("https://api.example.com:443", "https://api.example.com"),
    ("HTTPS://API.Example.COM", "https://api.example.com"),
    ("https://api.example.com/some/prefix/", "https://api.example.com/some/prefix"),
    ("https://api.example.com/v3x", "https://api.example.com/v3x"),
    ("https://münchen.example", "https://xn--mnchen-3ya.example"),
    ("https://192.0.2.1", "https://192.0.2.1"),
    ("https://[2001:db8::1]:8443", "https://[2001:db8::1]:8443"),
    ("https://api_1.example-site.com.", "https://api_1.example-site.com."),
    ("http://localhost:8080", "http://localhost:8080"),
    ("http://LOCALHOST:8080", "http://localhost:8080"),
    ("http://127.0.0.1:80", "http://127.0.0.1"),
    ("http://127.8.9.1", "http://127.8.9.1"),
    ("http://[::1]:8080", "http://[::1]:8080"),
]

BAD = [
    (None, "SEOREP_BASE_URL"),
    ("", "must be a string such as"),
    ("   ", "must be a string such as"),
    (b"https://api.example.com", "must be a string such as"),
    (URL("https://api.example.com"), "must be a string such as"),
    ("api.example.com", "needs a scheme"),
    ("api.example.com:443", "needs a scheme"),
    ("//api.example.com", "needs a scheme"),
    ("/v3", "needs a scheme"),
    ("https://", "needs a scheme"),
    ("https:///path", "needs a scheme"),
    ("https:api.example.com", "needs a scheme"),
    ("ftp://api.example.com", "needs a scheme"),
    ("file:///etc/passwd", "needs a scheme"),
    ("https://:443", "not a valid address"),
    ("https://api.example.com:99999", "not a valid address"),
    ("https://api.example.com:x", "not a valid address"),
    ("https://[::1", "not a valid address"),
    ("https://a..example.com", "not a valid address"),
    ("https://.example.com", "not a valid address"),
    ("https://exa%20mple.com", "not a valid address"),
    ("https://api.example.com;x", "not a valid address"),
    (f"https://{'a' * 64}.example.com", "not a valid address"),
    (f"https://{'a.' * 127}com", "not a valid address"),
    ("https://\u2025.example.com", "not a valid address"),
    ("https://api.example.com\\.evil.example", "not a valid address"),
    ("https://user:c4n4ry@api.example.com", "credentials"),
    ("https://c4n4ry@api.example.com", "credentials"),
    ("https://:c4n4ry@api.example.com", "credentials"),
    ("https://@api.example.com", "credentials"),
    ("https://:c4n4ry@api.example.com:x", "address"),
    ("https://:c4n4ry@", "credentials"),
    ("http://user:c4n4ry@api.example.com/v3?a=b", "credentials"),
    ("https://api.example.com?api_key=c4n4ry", "query"),
    ("https://api.example.com/?", "query"),
    ("https://api.example.com#c4n4ry", "fragment"),
    ("https://api.example.com#", "fragment"),
    ("https://api.example.com/v3", "before /v3"),
    ("https://api.example.com/v3/", "before /v3"),
    ("https://api.example.com/v3//", "before /v3"),
    ("https://api.example.com/prefix/v3", "before /v3"),
    ("https://api.example.com/v3/.", "before /v3"),
    ("https://api.example.com/%763", "before /v3"),
    (" https://api.example.com", "spaces"),
    ("https://api.example.com ", "spaces"),
    ("https://api.example.com\n", "spaces"),
    ("https://api.exa mple.com", "spaces"),
    ("https://api.example.com\x00", "control characters"),
]
INSECURE = [
    ("http://api.example.com", "https://"),
    ("http://192.0.2.1", "https://"),
    ("http://10.0.0.1", "https://"),
    ("http://127.0.0.1.example.com", "https://"),
    ("http://localhost.example.com", "https://"),
    ("http://[2001:db8::1]", "https://"),
    ("http://0.0.0.0:8080", "https://"),
]


@pytest.mark.parametrize(("base_url", "text"), GOOD)
def test_address_is_taken(base_url: str, text: str) -> None:
    assert base_url_problem(base_url, allow_insecure_http=False) is None
    assert BaseURL(base_url).string == text


PATHS = [("/v3/campaigns", ""), ("/v3/campaigns/7", "page=1"), ("/v3/a%2Fb", "search=a%26b%20c&role%5B%5D=%3F")]


@pytest.mark.parametrize(
    ("base_url", "path", "query"), [(base_url, *PATHS[number % 3]) for number, (base_url, _) in enumerate(GOOD)]
)
def test_every_path_goes_behind_the_address_at_the_same_origin(base_url: str, path: str, query: str) -> None:
    base = BaseURL(base_url)
    address = base.address(path, query)
    assert str(address) == base.string + path + (f"?{query}" if query else "")
    assert address == URL(str(address), encoded=True)
    assert origin_of(address) == base.origin


@pytest.mark.parametrize(("base_url", "said"), [*BAD, *INSECURE])
def test_address_is_refused_with_what_to_do_and_not_shown(base_url: object, said: str) -> None:
    problem = base_url_problem(base_url, allow_insecure_http=False)
    assert problem is not None
    assert said in problem
    assert "c4n4ry" not in problem


@pytest.mark.parametrize("base_url", [*dict(INSECURE), "http://10.0.0.1:8080"])
def test_insecure_address_can_be_allowed(base_url: str) -> None:
    assert base_url_problem(base_url, allow_insecure_http=True) is None


def test_nothing_else_can_be_allowed() -> None:
    assert [base_url for base_url, _ in BAD if base_url_problem(base_url, allow_insecure_http=True) is None] == []
