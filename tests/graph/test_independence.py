from crawl_platform.graph.independence import UNKNOWN, independent_support, related_hosts, support


def test_hosts_that_share_any_label_are_related_directly_or_through_others():
    address = [1, 1, 2, 3, UNKNOWN]
    domain = [7, 8, 8, 9, UNKNOWN]
    # 0–1 share an address, 1–2 a domain; 3 and 4 stand alone.

    cluster = related_hosts([address, domain], 5)

    assert cluster[0] == cluster[1] == cluster[2]
    assert len({cluster[0], cluster[3], cluster[4]}) == 3


def test_hosts_about_which_nothing_is_known_stay_apart():
    assert len(set(related_hosts([[UNKNOWN] * 4], 4))) == 4
    assert len(set(related_hosts([], 3))) == 3


def test_related_hosts_have_one_vote_between_them():
    src, dst = [0, 1, 2, 3], [4, 4, 4, 4]

    assert support(src, dst, 5)[4] == 4
    assert independent_support(src, dst, 5, [0, 0, 0, 1, 2])[4] == 2


def test_a_host_and_its_relatives_do_not_support_it():
    assert independent_support([0, 1], [1, 0], 2, [5, 5]).tolist() == [0, 0]


def test_repeated_links_are_one_vote():
    assert support([0, 0, 0], [1, 1, 1], 2).tolist() == [0, 1]
