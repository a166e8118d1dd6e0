"""A cell that knows what the crawl is for asks for links on topic first, by their URLs and anchors."""

from pathlib import Path

import pytest

from tests.fleet.worker_cell import Answer, Request, virtual_cell

TOPICS = '[[topics]]\nname = "wind"\nphrases = ["wind turbine*"]\n'
LINKS = {f"/{n}": "more" for n in range(6)} | {"/wind-turbines": "more", "/x": "About a wind turbine"}
PAGE = "".join(f'<p><a href="{path}">{text}</a></p>' for path, text in LINKS.items()).encode()


def script(request: Request) -> Answer:
    if request.url.endswith("/robots.txt"):
        return Answer(404)
    return Answer(headers={"content-type": "text/html"}, body=PAGE)


@pytest.mark.parametrize("topics", [True, False], ids=["with topics", "ablation: without"])
async def test_links_on_topic_come_first(tmp_path: Path, topics: bool) -> None:
    if topics:
        (tmp_path / "topics.toml").write_text(TOPICS)
    async with virtual_cell(tmp_path, {"a.test": "192.0.2.1"}, script, pages=1) as cell:
        await cell.run(4)
        await cell.made._bulk.close()
        asked = await cell.run(2.5)

    first = [request.url for request in asked][:2]
    assert ({url.removeprefix("https://a.test") for url in first} == {"/wind-turbines", "/x"}) is topics
