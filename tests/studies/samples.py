"""Results of a study with invented numbers, one of everything that a page can show; a strict reader of pages."""

import re
from html.parser import HTMLParser

from sweet_rl.studies import results as study_results
from sweet_rl.studies.results import Axes, Candidate, Counted, Dialogue, Frame, Measure, Turn

PICTURE = "data:image/png;base64,iVBORw0KGgo="


def method(name, successes, *, curves=True):
    """A method with a run for each success; its curve rises to it."""
    runs = []
    for seed, success in enumerate(successes):
        measures = {"success": Counted(success, success - 0.1, success + 0.1, n=50)}
        measures |= {"useful question": Counted(2 * success), "auc": Counted(0.75, n=3120)}
        drawn = {"success": tuple((100.0 * x, success * x / 9) for x in range(10))}
        drawn |= {"loss": tuple((float(x), 1 / x) for x in range(1, 30))}
        runs.append(study_results.Run(seed, measures, drawn if curves else {}))
    return study_results.Method(name, f"the {name}", f"what {name} does", tuple(runs), {"examples": 4000})


def sample_results(own=(0.5, 0.6, 0.7), start=(0.1, 0.25, 0.25), rival=(0.5, 0.5, 0.8)):
    methods = {name: method(name, each) for name, each in (("start", start), ("own", own), ("rival", rival))}
    part = study_results.Comparison(
        *("world", "the world", "own", "start", "What is played."),
        measures=(
            Measure("success", "success"),
            Measure("useful question", "useful question", "number", "behaviour"),
            Measure("auc", "AUC", "number", "critic"),
        ),
        curves=(Axes("success", "success", "episodes", "share", main=True), Axes("loss", "loss", "update")),
        methods=tuple(methods.values()),
        claims=(
            study_results.claim_over_seeds(
                "own beats its start", methods["own"], methods["start"], "success"
            ),
            study_results.claim_over_seeds(
                "own beats the rival", methods["own"], methods["rival"], "success"
            ),
        ),
    )
    candidates = Candidate("Is it red?", 0.7, 3, "useful question"), Candidate("Is it alive?", None)
    asked = Turn("Is it alive?", "No.", "useless question", -0.41, candidates)
    unscored = Turn("Is it old?", None, "useless question", None, (Candidate("Is it red?", 0.7),))
    return study_results.Results(
        *("sweet", "A study", "of everything", (part,)),
        (
            Dialogue("own", "the own", 1.0, "Guess.", "run(x, scale3)", (asked,)),
            Dialogue("start", "the start", -3.0, solution="banana", turns=(Turn("Is it a dog?", None),)),
            Dialogue("own", "the own", solution="pear", turns=(unscored,)),
        ),
        (study_results.Strip("A page.", (Frame("turn 1", PICTURE, 0.2), Frame("target", PICTURE))),),
        {"seeds": [0, 1, 2], "model": "tiny"},
        {"machine": "2 cores", "day": "2026-11-23", "sweet_rl": "1.0", "command": "sweet-rl demo"},
        {"training": 250.0},
        ("A note.",),
        ("own: 2 test episodes failed.",),
    )


VOID = {"meta", "br", "hr", "img", "input", "link"}


class Reader(HTMLParser):
    """Checks that elements are closed in order; collects tags, attributes, visible text and ids."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open, self.tags, self.attributes, self.ids, self.texts = [], [], [], [], []
        self.feed(page)
        self.close()
        assert self.open == []
        assert len(self.ids) == len(set(self.ids))
        self.text = re.sub(r"\s+", " ", " ".join(self.texts)).replace("\u202f", " ")

    def handle_starttag(self, name, attributes):
        self.tags.append(name)
        self.attributes += attributes
        self.ids += [value for key, value in attributes if key == "id"]
        if name not in VOID:
            self.open.append(name)

    def handle_startendtag(self, name, attributes):
        self.handle_starttag(name, attributes)
        if name not in VOID:
            self.open.pop()

    def handle_endtag(self, name):
        assert self.open.pop() == name

    def handle_data(self, data):
        if self.open and self.open[-1] not in {"script", "style"}:
            self.texts.append(data)
