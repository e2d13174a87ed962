"""The words from which the sandbox builds an account: places, trades, names, tags and sites."""


def _words(text: str) -> tuple[str, ...]:
    """Split a text at its commas, and collapse whitespace."""
    return tuple(" ".join(part.split()) for part in text.split(","))


LANGUAGE: dict[str, int | str] = {"id": 1000, "name": "English"}
_CITIES = (
    (1006886, "London,England,United Kingdom", "GB"),
    (1006912, "Manchester,England,United Kingdom", "GB"),
    (1006524, "Bristol,England,United Kingdom", "GB"),
    (1007105, "York,England,United Kingdom", "GB"),
    (1023191, "New York,New York,United States", "US"),
    (1026201, "Austin,Texas,United States", "US"),
    (1002604, "Montréal,Quebec,Canada", "CA"),
)
PLACES: tuple[dict[str, int | str], ...] = tuple(
    {
        "id": city_id,
        "canonical_name": canonical_name,
        "country_code": country_code,
        "target_type": "City",
    }
    for city_id, canonical_name, country_code in _CITIES
)
PHRASINGS = _words("""
    {product}, best {product}, {product} near me, {product} in {city}, buy {product} online,
    {product} reviews, cheap {product}, {product} prices, how to choose {product},
    {product} for beginners
""")
_PRODUCTS = """
    Running: running shoes, trail shoes, racing flats, running socks, gait analysis, running vest
    Dental: dentist, teeth whitening, dental implants, invisible braces, dental crown, veneers
    Garden: garden furniture, raised beds, greenhouse, lawn seed, garden design, water butt
    Plumbing: plumber, boiler repair, boiler service, bathroom fitter, leak repair, power flush
    Roofing: roof repair, metal roofing, gutter cleaning, roof inspection, shingles, skylights
    Coffee: coffee beans, espresso machine, cold brew, café au lait, decaf coffee, coffee grinder
    Pâtisserie: wedding cake, crème brûlée, macarons, éclairs, birthday cake, gâteau
    Sushi: sushi delivery, 寿司, omakase, sashimi, ramen, fish market
"""


def _trades() -> tuple[tuple[str, tuple[str, ...]], ...]:
    trades = []
    for line in _PRODUCTS.strip().splitlines():
        trade, _, products = line.partition(":")
        trades.append((trade.strip(), _words(products)))
    return tuple(trades)


TRADES = _trades()
"""Each trade and its products."""
NAMES = _words("""
    Northgate, Harbour, Bluebell, Ironbridge, Oak & Son, Summit, Köhler, Riverside, Étoile,
    Copper, Hillcrest, Market Street, Lighthouse, Old Mill, Redwood, Birch, Crown, Kingfisher,
    Prairie, Beacon, Alder, Three Rivers, Juniper, Castle, Meadow, Granite, Fairview, Orchard,
    Vale, Wren, Canal, Atlas, Primrose, Stone, Maple, Quay, Foxglove, Union, Cedar, Highland,
    Willow
""")
# Each name is combined once with each suffix. The first suffix is empty.
_SUFFIX_WORDS = _words("Group, & Co, Direct, Partners, Works, House, Studio, Collective, Brothers")
SUFFIXES = ("", *(f" {word}" for word in _SUFFIX_WORDS))
GROUPS = ("Key accounts", "Retail", "Local services", "Onboarding", None)
TAGS = _words("""
    brand, money page, local, seasonal, blog, competitor, quick win, long tail, Größe
""")
FIRST_NAMES = _words("""
    Ada, Ben, Chloé, Dev, Edith, Farid, Grace, Hugo, Ines, Jürgen, Kofi, Lena, Marta, Noor,
    Oscar, Priya, Quentin, Rosa, Sören, Tess
""")
LAST_NAMES = _words("""
    Abbott, Byrne, Clarke, Dubois, Ellis, Fischer, García, Hughes, Ito, Jensen, Khan, Lloyd,
    Moreau, Novak, O'Brien, Patel, Quinn, Rossi, Schäfer, Turner, Ueda, Vega, Walsh
""")
SITES = (
    ("blog.weekend-notes", "what we learnt"),
    ("www.town-directory", "our listing"),
    ("news.county-herald", "a report"),
    ("www.hobby-forum", "a thread"),
    ("www.buyers-guide", "ten to try"),
    ("magazine.home-and-away", "an interview"),
)
LINK_TYPES = _words("""
    guest post, resource page, directory, press release, editorial link, forum
""")
# Keyword tools round search volumes to these steps.
SEARCH_VOLUMES = tuple(
    int(step)
    for step in _words("""
    0, 10, 20, 30, 40, 50, 70, 90, 110, 140, 170, 210, 260, 320, 390, 480, 590, 720, 880, 1000,
    1300, 1600, 1900, 2400, 2900, 3600, 4400, 5400, 6600, 8100, 9900, 12100, 14800, 18100,
    22200, 27100, 33100, 40500, 49500
""")
)
