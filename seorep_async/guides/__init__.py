"""The guides: Markdown pages, which a repository shows with links and pictures, and `seorep guide` prints."""

from importlib.resources import files


def pages() -> dict[str, str]:
    """Return the text of every guide by its name, in the order of the names; a text begins with `# TITLE`."""
    found = [file for file in files(__name__).iterdir() if file.name.endswith(".md")]
    return {
        file.name[:-3]: file.read_text(encoding="utf-8")
        for file in sorted(found, key=lambda file: file.name)
    }
