"""The one honest site among them: a tree of pages. What the others do must not be felt here."""

from crawl_platform.simulation.hostile.misbehaviour import Misbehaviour
from crawl_platform.simulation.hostile.visit import Visit, page

PAGES = 24


def paths() -> set[str]:
    """All pages of the site."""
    return {"/", *(f"/{number}" for number in range(1, PAGES))}


async def _page(visit: Visit) -> None:
    if visit.path not in paths():
        await visit.answer(page("not here"), 404)
        return
    number = int(visit.path[1:] or 0)
    children = [n for n in (2 * number + 1, 2 * number + 2) if n < PAGES]
    links = "".join(f'<a href="/{child}">page {child}</a> ' for child in children)
    await visit.answer(page(f"page {number}", f"{links}<p>Nothing but the truth, number {number}.</p>"))


HONEST = Misbehaviour("honest", "honest", "nothing", ("ok",), _page, most=10_000)
