"""The cities as tasks: rows that `sweet_rl.records.task_from_row` reads.

The 91 cities and their order are the published ones, spellings included. What is ours stands at the end: names under
which most people know some of the cities today.

Published behaviour: docs/published/archer.md#guess-my-city.
"""

from __future__ import annotations

from typing import Final

from sweet_rl.types import Json
from sweet_rl.worlds.question_games.tasks import FIRST_OBSERVATION, split_of

CITIES: Final = (
    "Seoul, South Korea",
    "Sao Paulo, Brazil",
    "Bombay, India",
    "Jakarta, Indonesia",
    "Karachi, Pakistan",
    "Moscow, Russia",
    "Istanbul, Turkey",
    "Shanghai, China",
    "Tokyo, Japan",
    "Bangkok, Thailand",
    "Beijing, China",
    "Delhi, India",
    "London, UK",
    "Cairo, Egypt",
    "Tehran, Iran",
    "Bogota, Colombia",
    "Bandung, Indonesia",
    "Tianjin, China",
    "Lima, Peru",
    "Lahore, Pakistan",
    "Bogor, Indonesia",
    "Santiago, Chile",
    "Shenyang, China",
    "Calcutta, India",
    "Wuhan, China",
    "Sydney, Australia",
    "Guangzhou, China",
    "Singapore, Singapore",
    "Madras, India",
    "Baghdad, Iraq",
    "Pusan, South Korea",
    "Yokohama, Japan",
    "Dhaka, Bangladesh",
    "Berlin, Germany",
    "Alexandria, Egypt",
    "Bangalore, India",
    "Malang, Indonesia",
    "Hyderabad, India",
    "Chongqing, China",
    "Haerbin, China",
    "Ankara, Turkey",
    "Buenos Aires, Argentina",
    "Chengdu, China",
    "Ahmedabad, India",
    "Casablanca, Morocco",
    "Chicago, USA",
    "Xian, China",
    "Madrid, Spain",
    "Surabaya, Indonesia",
    "Pyong Yang, North Korea",
    "Nanjing, China",
    "Kinshaha, Congo",
    "Rome, Italy",
    "Taipei, China",
    "Osaka, Japan",
    "Kiev, Ukraine",
    "Yangon, Myanmar",
    "Toronto, Canada",
    "Zibo, China",
    "Dalian, China",
    "Taega, South Korea",
    "Addis Ababa, Ethopia",
    "Jinan, China",
    "Salvador, Brazil",
    "Inchon, South Korea",
    "Semarang, Indonesia",
    "Giza, Egypt",
    "Changchun, China",
    "Havanna, Cuba",
    "Nagoya, Japan",
    "Belo Horizonte, Brazil",
    "Paris, France",
    "Tashkent, Uzbekistan",
    "Fortaleza, Brazil",
    "Sukabumi, Indonesia",
    "Cali, Colombia",
    "Guayaquil, Ecuador",
    "Qingdao, China",
    "Izmir, Turkey",
    "Cirebon, Indonesia",
    "Taiyuan, China",
    "Brasilia, Brazil",
    "Bucuresti, Romania",
    "Faisalabad, Pakistan",
    "Medan, Indonesia",
    "Houston, USA",
    "Mashhad, Iran",
    "Medellin, Colombia",
    "Kanpur, India",
    "Budapest, Hungary",
    "Caracas, Venezuela",
)
"""City and country, as the published list spells them."""

OTHER_NAMES: Final[dict[str, tuple[str, ...]]] = {
    "Bangalore": ("Bengaluru",),
    "Beijing": ("Peking",),
    "Bombay": ("Mumbai",),
    "Bucuresti": ("Bucharest",),
    "Calcutta": ("Kolkata",),
    "Chongqing": ("Chungking",),
    "Delhi": ("New Delhi",),
    "Guangzhou": ("Canton",),
    "Haerbin": ("Harbin",),
    "Havanna": ("Havana",),
    "Inchon": ("Incheon",),
    "Izmir": ("Smyrna",),
    "Kiev": ("Kyiv",),
    "Kinshaha": ("Kinshasa",),
    "Madras": ("Chennai",),
    "Mashhad": ("Meshed",),
    "Nanjing": ("Nanking",),
    "Pusan": ("Busan",),
    "Qingdao": ("Tsingtao",),
    "Taega": ("Daegu", "Taegu"),
    "Tehran": ("Teheran",),
    "Yangon": ("Rangoon",),
}
"""Ours: further names by which a city may be guessed. Accents, spaces and apostrophes make no difference."""


def guess_my_city_tasks(split: str = "") -> list[dict[str, Json]]:
    """The home towns of Guess My City."""
    rows = [_city_row(number, place) for number, place in enumerate(CITIES)]
    return split_of(rows, split, "guess-my-city", ("train", "test"))


def city_names() -> list[list[str]]:
    """Every name of every city, one list for each, by which `GuessMyCityEnv` finds guesses."""
    return [row["aliases"] for row in guess_my_city_tasks()]


def _city_row(number: int, place: str) -> dict[str, Json]:
    city = place.split(",", maxsplit=1)[0]
    return {
        "task_id": f"guess_my_city/{number}",
        "problem_description": FIRST_OBSERVATION,
        "ground_truth": place,
        "hidden_information": place,
        "aliases": [city.lower(), *(name.lower() for name in OTHER_NAMES.get(city, ()))],
    }
