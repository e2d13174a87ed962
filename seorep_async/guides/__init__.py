"""The guides: Markdown pages, which `seorep guide` prints."""

from importlib.resources import files


def pages() -> dict[str, str]:
    """Return the text of every guide by its name, in the order of the names.

    A text begins with `# TITLE`.
    """
    guides = [file for file in files(__name__).iterdir() if file.name.endswith(".md")]
    guides.sort(key=lambda file: file.name)
    return {file.name.removesuffix(".md"): file.read_text(encoding="utf-8") for file in guides}
