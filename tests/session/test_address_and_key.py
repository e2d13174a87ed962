"""The address of the service and the API key are checked before any I/O, and never shown."""

import pickle

import pytest
from yarl import URL

from seorep_async.session import Authentication, BaseURL, base_url_problem, key_problem
from seorep_async.session.base_url import origin_of

UNCHANGED = [
    "https://api.example.com",
    "https://api.example.com:8443",
    "https://api.example.com/v3x",
    "https://192.0.2.1",
    "https://[2001:db8::1]:8443",
    "https://api.example.com/!",
    "https://api_1.example-site.com.",
    "http://127.8.9.1",
    "http://[::1]:8080",
    "http://localhost:8080",
]
GOOD = dict.fromkeys(UNCHANGED) | {
    "https://api.example.com/": "https://api.example.com",
    "https://api.example.com:443": "https://api.example.com",
    "HTTPS://API.Example.COM": "https://api.example.com",
    "https://api.example.com/some/prefix/": "https://api.example.com/some/prefix",
    "https://münchen.example": "https://xn--mnchen-3ya.example",
    "http://LOCALHOST:8080": "http://localhost:8080",
    "http://127.0.0.1:80": "http://127.0.0.1",
}
INSECURE = [
    "http://api.example.com",
    "http://192.0.2.1",
    "http://10.0.0.1",
    "http://127.0.0.1.example.com",
    "http://localhost.example.com",
    "http://[2001:db8::1]",
    "http://0.0.0.0:8080",
]


@pytest.mark.parametrize(("base_url", "text"), GOOD.items())
def test_a_valid_address_is_accepted(base_url: str, text: str | None) -> None:
    assert base_url_problem(base_url, allow_insecure_http=False) is None
    assert BaseURL(base_url).string == (text or base_url)


PATHS = [
    ("/v3/campaigns", ""),
    ("/v3/campaigns/7", "page=1"),
    ("/v3/a%2Fb", "search=a%26b%20c&role%5B%5D=%3F"),
]


@pytest.mark.parametrize(
    ("base_url", "path", "query"),
    [(base_url, *PATHS[number % 3]) for number, base_url in enumerate(GOOD)],
)
def test_every_path_is_appended_to_the_address(base_url: str, path: str, query: str) -> None:
    base = BaseURL(base_url)
    address = base.address(path, query)
    assert str(address) == base.string + path + (f"?{query}" if query else "")
    assert address == URL(str(address), encoded=True)
    assert origin_of(address) == base.origin


@pytest.mark.parametrize(
    ("said", "addresses"),
    [
        (
            "must be a string such as",
            [
                "",
                "   ",
                b"https://api.example.com",
                URL("https://api.example.com"),
            ],
        ),
        (
            "needs a scheme",
            [
                "api.example.com",
                "api.example.com:443",
                "//api.example.com",
                "/v3",
                "https://",
                "https:///path",
                "https:api.example.com",
                "ftp://api.example.com",
                "file:///etc/passwd",
            ],
        ),
        (
            "not a valid address",
            [
                "https://:443",
                "https://api.example.com:99999",
                "https://api.example.com:x",
                "https://[::1",
                "https://a..example.com",
                "https://exa%20mple.com",
                "https://<your-host>",
                f"https://{'a' * 64}.example.com",
                f"https://{'a.' * 127}com",
                "https://\u2025.example.com",
                "https://api.example.com\\.evil.example",
                "https://:c4n4ry@api.example.com:x",
            ],
        ),
        (
            "credentials",
            [
                "https://user:c4n4ry@api.example.com",
                "https://c4n4ry@api.example.com",
                "https://:c4n4ry@api.example.com",
                "https://@api.example.com",
                "https://:c4n4ry@",
                "http://user:c4n4ry@api.example.com/v3?a=b",
            ],
        ),
        (
            "a query or a fragment",
            [
                "https://api.example.com?api_key=c4n4ry",
                "https://api.example.com/?",
                "https://api.example.com#c4n4ry",
                "https://api.example.com#",
            ],
        ),
        (
            "must not include /v3",
            [
                "https://api.example.com/v3",
                "https://api.example.com/v3/",
                "https://api.example.com/v3//",
                "https://api.example.com/prefix/v3",
                "https://api.example.com/v3/.",
                "https://api.example.com/v3/campaigns",
                "https://api.example.com/prefix/v3/users/",
                "https://api.example.com/v3/resources/rankings/campaign",
                "https://api.example.com/%763",
            ],
        ),
        (
            "spaces or control characters",
            [
                " https://api.example.com",
                "https://api.example.com ",
                "https://api.example.com\n",
                "https://api.exa mple.com",
                "https://api.example.com\x00",
            ],
        ),
        ("https://", INSECURE),
    ],
)
def test_a_wrong_address_is_refused_and_not_shown(said: str, addresses: list[object]) -> None:
    for address in addresses:
        refused = "; ".join(base_url_problem(address, allow_insecure_http=False) or ())
        assert said in refused, address
        assert "c4n4ry" not in refused


@pytest.mark.parametrize(
    ("address", "is_allowed"),
    [
        *[(address, True) for address in INSECURE],
        ("http://user@api.example.com", False),
        ("http://api.example.com/v3", False),
        ("ftp://api.example.com", False),
    ],
)
def test_insecure_addresses_and_nothing_else_can_be_allowed(address: str, is_allowed: bool) -> None:
    assert (base_url_problem(address, allow_insecure_http=True) is None) is is_allowed


# the key


@pytest.mark.parametrize(
    "key",
    [
        "k",
        "sandbox",
        "0123456789abcdef" * 16,
        "a:b",
        "with space inside",
        "äöü",
        "a\u0308",
        "🔑",
        "a/b+c=",
        "%41",
        '"\\',
    ],
)
def test_a_valid_key_is_accepted(key: str) -> None:
    assert key_problem(key) is None


@pytest.mark.parametrize(
    ("said", "key"),
    [
        ("is empty", ""),
        ("is empty", "   "),
        ("strip it", "c4n4ry\t"),
        ("strip it", "c4n4ry\n"),
        ("strip it", " c4n4ry"),
        ("strip it", "c4n4ry "),
        ("strip it", "c4n4ry\u2028"),
        ("invisible character, U+0000", "c4n\x00ary"),
        ("invisible character, U+007F", "c4n4ry\x7f"),
        ("invisible character, U+000D", "c4n4ry\r\nX-Other: 1"),
        ("invisible character, U+D800", "c4n4ry\ud800"),
        ("invisible character, U+FEFF: copy the key again", "\ufeffc4n4ry"),
        ("invisible character, U+", "c4n4ry\u200b"),
        ("invisible character, U+", "c4n\u00ad4ry"),
        ("invisible character, U+", "c4n\u200d4ry"),
        ("invisible character, U+", "c4n\u00a04ry"),
        ("invisible character, U+", "c4n\x854ry"),
        ("invisible character, U+", "c4n\U000e00414ry"),
    ],
)
def test_key_is_refused_and_not_shown(said: str, key: str) -> None:
    problem = key_problem(key)
    assert problem is not None
    assert said in problem
    assert "c4n" not in problem


def test_key_is_in_no_repr_and_not_pickled() -> None:
    authentication = Authentication("c4n4ry")
    assert "c4n4ry" not in f"{authentication!r} {authentication}"
    with pytest.raises(TypeError, match="create the client"):
        pickle.dumps(authentication)
