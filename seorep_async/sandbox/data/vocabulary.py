"""The words that the account is made of: markets, trades, names of companies and people, tags, sites."""

from attrs import frozen


@frozen(kw_only=True)
class Market:
    """A language, the places searched from, the ways people ask, and the trades with what they sell."""

    language: dict[str, int | str]
    places: tuple[dict[str, int | str], ...]
    phrasings: tuple[str, ...]
    trades: tuple[tuple[str, tuple[str, ...]], ...]


def _places(country: str, code: str, *cities: tuple[int, str]) -> tuple[dict[str, int | str], ...]:
    return tuple(
        {"id": id_, "canonical_name": f"{city},{country}", "country_code": code, "target_type": "City"}
        for id_, city in cities
    )


_ENGLISH = (
    "{product}", "best {product}", "{product} near me", "{product} in {city}", "buy {product} online",
    "{product} reviews", "cheap {product}", "{product} prices", "how to choose {product}", "{product} for beginners",
)  # fmt: skip

BRITAIN = Market(
    language={"id": 1000, "name": "English"},
    places=_places(
        "England,United Kingdom", "GB",
        (1006886, "London"), (1006912, "Manchester"), (1006524, "Bristol"), (1006868, "Leeds"), (1007105, "York"),
    ),
    phrasings=_ENGLISH,
    trades=(
        ("Running", ("running shoes", "trail shoes", "racing flats", "running socks", "gait analysis", "running vest")),
        ("Dental", ("dentist", "teeth whitening", "dental implants", "invisible braces", "dental crown", "veneers")),
        ("Garden", ("garden furniture", "raised beds", "greenhouse", "lawn seed", "garden design", "water butt")),
        ("Plumbing", ("plumber", "boiler repair", "boiler service", "bathroom fitter", "leak repair", "power flush")),
    ),
)  # fmt: skip
AMERICA = Market(
    language={"id": 1000, "name": "English"},
    places=_places(
        "United States", "US",
        (1023191, "New York,New York"), (1016367, "Chicago,Illinois"), (1026481, "Portland,Oregon"),
        (1014221, "San Diego,California"), (1026201, "Austin,Texas"), (1014485, "Denver,Colorado"),
    ),
    phrasings=_ENGLISH,
    trades=(
        ("Roofing", ("roof repair", "metal roofing", "gutter cleaning", "roof inspection", "shingles", "skylights")),
        ("Legal", ("injury lawyer", "divorce attorney", "estate planning", "visa lawyer", "notary", "will writing")),
        ("Coffee", ("coffee beans", "espresso machine", "cold brew", "latte mix", "decaf coffee", "coffee grinder")),
        ("Pet Care", ("dog groomer", "cat boarding", "puppy training", "raw dog food", "pet insurance", "dog walker")),
    ),
)  # fmt: skip
GERMANY = Market(
    language={"id": 1001, "name": "German"},
    places=_places("Germany", "DE", (1003854, "Berlin"), (1004437, "Köln"), (1004234, "München")),
    phrasings=("{product}", "{product} kaufen", "{product} {city}", "{product} günstig", "{product} in der Nähe",
               "beste {product}", "{product} für Anfänger", "{product} Öffnungszeiten"),
    trades=(
        ("Küchen", ("Einbauküche", "Küchenmöbel", "Spüle aus Edelstahl", "Küchenplanung", "Arbeitsplatte Eiche")),
        ("Räder", ("E-Bike", "Kinderfahrräder", "Fahrradwerkstatt", "Lastenrad", "Gravelbike")),
    ),
)  # fmt: skip
FRANCE = Market(
    language={"id": 1002, "name": "French"},
    places=_places("France", "FR", (1006094, "Paris"), (1006410, "Lyon"), (1006322, "Nîmes")),
    phrasings=("{product}", "{product} à {city}", "{product} pas cher", "acheter {product}", "{product} près de moi",
               "meilleure {product}", "prix {product}"),
    trades=(
        ("Pâtisserie", ("pièce montée", "gâteau de mariage", "crème brûlée", "macarons", "bûche de Noël")),
        ("Hôtel", ("hôtel de charme", "chambre d'hôtes", "week-end en amoureux", "hôtel avec piscine", "gîte rural")),
    ),
)  # fmt: skip
JAPAN = Market(
    language={"id": 1005, "name": "Japanese"},
    places=_places("Japan", "JP", (1009307, "Shibuya,Tokyo"), (1009540, "Osaka"), (1009333, "Kyoto")),
    phrasings=("{product}", "{product} おすすめ", "{product} 通販", "{product} 口コミ", "安い {product}"),
    trades=(("Sushi", ("寿司 出前", "回転寿司", "寿司 ランチ", "魚市場", "おまかせ 予約")),),
)

# English first and most often, as in the accounts that the reference's samples come from.
MARKETS = (BRITAIN, AMERICA, BRITAIN, AMERICA, BRITAIN, AMERICA, GERMANY, FRANCE, JAPAN)

NAMES = (
    "Northgate", "Harbour", "Bluebell", "Ironbridge", "Oak & Son", "Summit", "Köhler", "Riverside", "Étoile", "Copper",
    "Hillcrest", "Market Street", "Lighthouse", "Old Mill", "Redwood", "Birch", "Crown", "Kingfisher", "Prairie",
    "Beacon", "Alder", "Three Rivers", "Juniper", "Castle", "Meadow", "Granite", "Fairview", "Orchard", "Vale", "Wren",
    "Canal", "Atlas", "Primrose", "Stone", "Maple", "Quay", "Foxglove", "Union", "Cedar", "Highland", "Willow",
)  # fmt: skip
SUFFIXES = ("", " Group", " & Co", " Direct", " Partners", " Works", " House", " Studio", " Collective", " Brothers")
GROUPS = ("Key accounts", "Retail", "Local services", "Onboarding", None)
TAGS = ("brand", "money page", "local", "seasonal", "blog", "competitor", "quick win", "long tail", "Größe")

FIRST_NAMES = (
    "Ada", "Ben", "Chloé", "Dev", "Edith", "Farid", "Grace", "Hugo", "Ines", "Jürgen", "Kofi", "Lena", "Marta", "Noor",
    "Oscar", "Priya", "Quentin", "Rosa", "Sören", "Tess",
)  # fmt: skip
LAST_NAMES = (
    "Abbott", "Byrne", "Clarke", "Dubois", "Ellis", "Fischer", "García", "Hughes", "Ito", "Jensen", "Khan", "Lloyd",
    "Moreau", "Novak", "O'Brien", "Patel", "Quinn", "Rossi", "Schäfer", "Turner", "Ueda", "Vega", "Walsh",
)  # fmt: skip
SITES = (
    ("blog.weekend-notes", "what we learnt"), ("www.town-directory", "our listing"), ("news.county-herald", "a report"),
    ("www.hobby-forum", "a thread"), ("www.buyers-guide", "ten to try"), ("magazine.home-and-away", "an interview"),
)  # fmt: skip
LINK_TYPES = ("guest post", "resource page", "directory", "press release", "editorial link", "forum")

# Search volumes come in the steps that keyword tools report them in.
VOLUMES = (
    0, 10, 20, 30, 40, 50, 70, 90, 110, 140, 170, 210, 260, 320, 390, 480, 590, 720, 880, 1000, 1300, 1600, 1900, 2400,
    2900, 3600, 4400, 5400, 6600, 8100, 9900, 12100, 14800, 18100, 22200, 27100, 33100, 40500, 49500,
)  # fmt: skip
