"""The flame graph of a cell."""

from xml.etree import ElementTree

from bench.flame import shares, svg, tree

LOOP = "/x/python3.11/asyncio/runners.py:Runner.run"
STACKS = [
    f"main;{LOOP};/repo/crawl_platform/fleet/worker.py:Worker.run;/repo/crawl_platform/digest/page.py:Page.read 30",
    f"main;{LOOP};/repo/crawl_platform/fleet/worker.py:Worker.run 10",
    f"main;{LOOP};/v/site-packages/nats/client.py:<lambda> 60",
]


def test_a_bar_holds_what_its_function_calls_and_the_loop_is_left_out() -> None:
    root = tree(STACKS)

    assert root.samples == 100
    assert {name: bar.samples for name, bar in root.above.items()} == {
        "fleet/worker.py:Worker.run": 40,
        "nats/client.py:<lambda>": 60,
    }
    assert root.above["fleet/worker.py:Worker.run"].above["digest/page.py:Page.read"].samples == 30


def test_shares_count_what_a_function_calls_and_one_that_calls_itself_once() -> None:
    again = f"main;{LOOP};a;b;a 100"

    assert shares(tree([*STACKS, again])) == {
        "a": 0.5, "b": 0.5, "nats/client.py:<lambda>": 0.3, "fleet/worker.py:Worker.run": 0.2,
        "digest/page.py:Page.read": 0.15,
    }  # fmt: skip


def test_the_picture_is_xml_with_a_bar_and_its_share_for_each_function() -> None:
    picture = ElementTree.fromstring(svg(tree(STACKS), "a & b"))

    titles = [element.text for element in picture.iter("{http://www.w3.org/2000/svg}title")]
    assert titles == [
        "fleet/worker.py:Worker.run 40.0%",
        "digest/page.py:Page.read 30.0%",
        "nats/client.py:<lambda> 60.0%",
    ]


def test_what_is_too_narrow_to_be_seen_is_left_out() -> None:
    picture = svg(tree([f"{LOOP};wide 999", f"{LOOP};narrow 1"]), "")

    assert "wide" in picture
    assert "narrow" not in picture
