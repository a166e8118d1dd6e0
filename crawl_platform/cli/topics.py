"""`crawl topics`: what the crawl is for: show the topics file in force, try another, put it in force."""

import shutil
from pathlib import Path
from typing import Any

import click

from crawl_platform.cli.crawl import Crawl
from crawl_platform.cli.options import home_option
from crawl_platform.cli.output import count_text, json_option, print_json, print_rows
from crawl_platform.errors import ConfigurationError
from crawl_platform.value.topics import Topics, together
from crawl_platform.value.topics_file import read_topics, topics_of
from crawl_platform.web.url import canonicalize

FOUND = """
SELECT topic, count(*) AS pages FROM (
    SELECT url, unnest(map_keys(text_topics)) AS topic FROM page_values
    UNION SELECT url, unnest(map_keys(link_topics)) FROM page_values
) GROUP BY topic
"""
READ = "SELECT title, text, entity_types FROM pages_now WHERE url = ?"


@click.command()
@click.argument("file", required=False, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--dry-run", is_flag=True, help="Check FILE, and leave the one in force.")
@click.option("--url", "urls", multiple=True, metavar="URL", help="Say what the topics make of this page.")
@click.option("--remove", is_flag=True, help="Have no topics any more.")
@json_option
@home_option
def topics(
    file: Path | None, dry_run: bool, urls: tuple[str, ...], remove: bool, as_json: bool, home: Path
) -> None:
    """Put a topics FILE in force, or show the one that is.

    It says what the crawl is for: topics and entities with their phrases and weights (TOML, docs/values.md). The
    next run of page_values scores all pages by it. Every fault of FILE is told with its line, and then nothing
    changes. A page of --url is judged by its text if it was read, else by its URL alone.
    """
    crawl = Crawl.at(home)
    if remove and file is not None:
        raise ConfigurationError("name a FILE or --remove, not both")
    place = crawl.home / crawl.settings.value.topics
    if remove:
        place.unlink(missing_ok=True)
    known = read_topics(file) if file else topics_of(crawl.home, crawl.settings.value)
    if file and not dry_run:
        _put(file, place)
    judged = [_judged(crawl, known, url) for url in urls]
    rows = _rows(crawl, known)
    if as_json:
        print_json({"file": str(place), "digest": known.digest, "topics": rows, "urls": judged})
        return
    if file:
        state = "is good" if dry_run else f"is in force ({place})"
        click.echo(f"{file} {state}: {count_text(len(known.entries), 'topic')}")
    print_rows(rows, {"name": "topic", "weight": "weight", "phrases": "phrases", "urls": "URLs", "types": "types",
                      "pages": "pages found"}, "no topics: crawl topics FILE")  # fmt: skip
    for one in judged:
        parts = ", ".join(f"{name} {strength:.2f}" for name, strength in one["strengths"].items())
        click.echo(f"{one['url']}: business {one['business']:.2f} by {one['by']} ({parts or 'no topic'})")


def _put(file: Path, place: Path) -> None:
    """Whole or not at all: a run of Dagster may read it at any moment."""
    if file.resolve() == place.resolve():
        return
    draft = place.with_name(f".{place.name}")
    shutil.copyfile(file, draft)
    draft.replace(place)


def _rows(crawl: Crawl, known: Topics) -> list[dict[str, Any]]:
    found = {row["topic"]: row["pages"] for row in crawl.lake.query(FOUND).to_pylist()}
    return [
        {
            "name": topic.name,
            "weight": topic.weight,
            "phrases": len(topic.phrases),
            "urls": len(topic.urls),
            "types": len(topic.types),
            "pages": found.get(topic.name, 0),
        }
        for topic in known.entries
    ]


def _judged(crawl: Crawl, known: Topics, url: str) -> dict[str, Any]:
    canonical = canonicalize(url)
    if canonical is None:
        raise ConfigurationError(f"not a URL that can be crawled: {url!r}")
    read = crawl.lake.query(READ, [canonical]).to_pylist()
    by_url = known.of_link(canonical)
    by_text = (
        known.of_page(read[0]["title"] or "", read[0]["text"] or "", read[0]["entity_types"] or ())
        if read
        else {}
    )
    strengths = together(by_url, by_text)
    return {
        "url": canonical,
        "by": "URL and text" if read else "URL",
        "business": known.business(strengths),
        "strengths": strengths,
    }
