"""What the crawl does about what sites prefer."""

import pytest

from crawl_platform.admission.preferences import ALL, FACTS, NO_BODY, treatment
from crawl_platform.errors import ConfigurationError
from crawl_platform.settings import Citizenship, HostRule, Settings
from crawl_platform.web.preferences import NOTHING_SAID, Preferences


def said(**categories: bool) -> Preferences:
    return Preferences({name.replace("_", "-"): word for name, word in categories.items()}, {})


def test_a_search_crawl_keeps_what_nobody_refuses_it() -> None:
    for preferences in (NOTHING_SAID, said(search=True), said(ai_train=False, ai_input=False, tdm=False)):
        assert treatment(preferences, Citizenship()) == ((), ALL, True)


def test_a_refused_purpose_leaves_the_facts_only() -> None:
    assert treatment(said(search=False), Citizenship()) == (("search",), FACTS, True)


def test_a_crawl_with_several_purposes_is_refused_by_one_of_them() -> None:
    both = Citizenship(purposes=("search", "ai-train"))

    assert treatment(said(search=True, ai_train=False), both).refused == ("ai-train",)
    assert treatment(said(search=True, ai_train=False), both).keep == FACTS


def test_mining_includes_training() -> None:
    training = Citizenship(purposes=("ai-train", "ai-images"))

    assert treatment(said(tdm=False), training).refused == ("ai-train", "ai-images")
    assert treatment(said(tdm=False, ai_train=True), training).refused == ("ai-train", "ai-images")
    assert treatment(said(ai_images=False), training).refused == ("ai-images",)


def test_noarchive_keeps_the_text_and_not_the_bytes() -> None:
    assert treatment(said(archive=False), Citizenship()) == ((), NO_BODY, True)
    assert treatment(said(archive=False), Citizenship(agreed=("archive",))).keep == ALL


def test_what_follows_is_a_setting() -> None:
    refusing = said(search=False, archive=False)

    assert treatment(refusing, Citizenship(on_refusal="drop")) == (("search",), FACTS, True)
    assert treatment(refusing, Citizenship(on_refusal="stop")) == (("search",), FACTS, False)
    assert treatment(refusing, Citizenship(on_refusal="record")) == (("search",), ALL, True)


def test_silence_can_mean_no() -> None:
    asking_first = Citizenship(purposes=("ai-train",), silence="refuse")

    assert treatment(NOTHING_SAID, asking_first).refused == ("ai-train",)
    assert treatment(said(ai_train=True), asking_first).refused == ()


def test_an_agreement_with_a_host_is_not_undone_by_its_pages() -> None:
    settings = Settings(
        home="/nowhere",
        citizenship=Citizenship(purposes=("search", "ai-train")),
        hosts=(HostRule("*.a.test", citizenship={"agreed": ["ai-train"]}),),
    )
    agreed = settings.with_rules(settings.hosts).citizenship

    assert treatment(said(ai_train=False, tdm=False), agreed).refused == ()
    assert treatment(said(search=False), agreed).refused == ("search",)


@pytest.mark.parametrize(
    "values",
    [
        {"purposes": ["profit"]},
        {"purposes": []},
        {"on_refusal": "ignore"},
        {"silence": ""},
        {"agreed": ["all"]},
    ],
)
def test_a_policy_that_is_none_is_refused(values: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError, match="citizenship"):
        Settings(home="/nowhere", hosts=(HostRule("a.test", citizenship=values),)).validate()
