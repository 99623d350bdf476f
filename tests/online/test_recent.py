"""What is remembered of texts that were read: bounded by their size, not by their number."""

from concurrent.futures import ThreadPoolExecutor

from sweet_rl.online.critic import Recent


def test_the_newest_results_are_remembered_as_far_as_they_fit():
    asked = []

    def make(text):
        asked.append(text)
        return tuple(text)

    recent = Recent(make, len, budget=3 * 38 * 10)  # three texts of ten letters and tokens
    texts = [letter * 10 for letter in "abcd"]
    for text in (*texts[:3], texts[0], texts[3], texts[0], texts[1]):
        assert recent(text) == tuple(text)
    assert asked == [*texts, texts[1]]  # b had made room for d: a had been asked for since
    assert len(recent) == 3
    assert recent("x" * 1000) == ("x",) * 1000  # larger than the budget: alone
    assert (len(recent), recent("x" * 1000), asked.count("x" * 1000)) == (1, ("x",) * 1000, 1)


def test_several_threads_may_ask():
    recent = Recent(str.split, len, budget=2000)
    texts = [f"{number} words and more {number}" for number in range(50)] * 20
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(recent, texts)) == [text.split() for text in texts]
    held = sum(2 * len(text) + 36 * len(text.split()) for text in recent._kept)
    assert recent._held == held <= 2000
