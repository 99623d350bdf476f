"""Twelve families of small functions: prices, grades, points, clock times, words, lists.

For models that can write code. Every problem hides five or so constants and rules; see `problem` for what a
family is.
"""

from sweet_rl.worlds.backend_programming.mini.families import lists, money, people, text

ALL = (
    money.parcel,
    people.grade,
    text.label,
    lists.results,
    money.loyalty,
    people.ready_time,
    lists.shortlist,
    money.bill,
    lists.readings,
    people.amount,
    money.shares,
    text.word_game,
)
"""In the order in which they take turns."""
