"""The vocabulary of the embedded shop's catalogue."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Category:
    """Things that are made, chosen and praised alike.

    Args:
        name: as a person would say it.
        kinds: what is sold, by the words that one would search with.
        materials: the nouns in front of the kind.
        audiences: the nouns behind "for".
        attributes: what products may have; also what instructions ask for.
        options: what a buyer chooses, type to values.
        prices: lowest and highest, in dollars.
    """

    name: str
    kinds: tuple[str, ...]
    materials: tuple[str, ...]
    audiences: tuple[str, ...]
    attributes: tuple[str, ...]
    options: dict[str, tuple[str, ...]]
    prices: tuple[float, float]


BRANDS: Final = (
    "Alderby",
    "Brightmoor",
    "Calloway",
    "Dunmere",
    "Eastlane",
    "Fernhill",
    "Glenrow",
    "Harborwick",
    "Ivystone",
    "Juniperra",
    "Kestrelo",
    "Larkfield",
    "Mapleton",
    "Northgale",
    "Oakhurst",
    "Pinecroft",
    "Quillon",
    "Ravenbrook",
    "Silverfen",
    "Thornbury",
    "Umberly",
    "Valewood",
    "Westmarch",
    "Yarrowby",
)

_CLOTHES_COLORS: Final = (
    "black",
    "white",
    "navy blue",
    "forest green",
    "burgundy",
    "charcoal grey",
    "mustard",
    "sky blue",
    "dusty rose",
    "olive",
)
_SIZES: Final = ("x-small", "small", "medium", "large", "x-large", "xx-large")

CATEGORIES: Final = (
    Category(
        "clothing",
        ("shirt", "sweater", "jacket", "hoodie"),
        ("cotton", "linen", "wool", "fleece"),
        ("men", "women", "kids"),
        (
            "machine washable",
            "long sleeve",
            "short sleeve",
            "slim fit",
            "relaxed fit",
            "button closure",
            "zipper pocket",
            "moisture wicking",
            "wrinkle free",
            "quick drying",
            "hand wash only",
            "tagless collar",
        ),
        {"color": _CLOTHES_COLORS, "size": _SIZES},
        (12.0, 89.0),
    ),
    Category(
        "shoes",
        ("sneakers", "sandals", "boots", "slippers"),
        ("leather", "suede", "canvas", "mesh"),
        ("men", "women", "kids"),
        (
            "arch support",
            "anti slip",
            "memory foam",
            "steel toe",
            "lace up",
            "slip on",
            "rubber sole",
            "water resistant",
            "ankle strap",
            "faux fur lining",
            "wide width",
            "shock absorbing",
        ),
        {
            "color": ("black", "brown", "tan", "white", "red", "grey", "teal", "beige"),
            "size": ("6", "6.5", "7", "7.5", "8", "8.5", "9", "9.5", "10", "11"),
        },
        (18.0, 140.0),
    ),
    Category(
        "lighting",
        ("table lamp", "floor lamp", "pendant light", "string lights"),
        ("brass", "glass", "ceramic", "bamboo"),
        ("bedroom", "living room", "patio", "office"),
        (
            "energy efficient",
            "remote control",
            "touch switch",
            "adjustable height",
            "easy assembly",
            "usb charging port",
            "weather proof",
            "dimmable light",
            "timer function",
            "motion sensor",
            "flicker free",
            "mid century style",
        ),
        {
            "color": ("antique gold", "matte black", "pearl white", "copper", "smoke grey", "sage green"),
            "light": ("warm white", "cool white", "daylight", "amber glow"),
        },
        (14.0, 160.0),
    ),
    Category(
        "audio",
        ("headphones", "earbuds", "bluetooth speaker", "microphone"),
        ("aluminum", "silicone", "carbon", "plastic"),
        ("gaming", "travel", "running", "studio"),
        (
            "noise cancelling",
            "fast charging",
            "long battery life",
            "hands free calls",
            "stereo sound",
            "high resolution",
            "plug and play",
            "sweat proof",
            "low latency",
            "volume limiter",
            "carrying case included",
            "voice assistant",
        ),
        {
            "color": ("black", "white", "midnight blue", "rose gold", "mint", "red"),
            "connection": ("usb-c", "3.5 mm jack", "wireless"),
        },
        (15.0, 220.0),
    ),
    Category(
        "groceries",
        ("ground coffee", "green tea", "granola", "trail mix", "dark chocolate"),
        ("almond", "hazelnut", "vanilla", "cocoa"),
        ("breakfast", "snacks", "gifts", "hiking"),
        (
            "gluten free",
            "non gmo",
            "dairy free",
            "low sodium",
            "sugar free",
            "fair trade",
            "usda organic",
            "keto friendly",
            "high protein",
            "plant based",
            "caffeine free",
            "resealable bag",
        ),
        {
            "flavor": ("original", "sea salt", "cinnamon", "orange peel", "maple", "ginger spice"),
            "pack": ("pack of 1", "pack of 2", "pack of 3", "pack of 6", "pack of 12"),
        },
        (6.0, 60.0),
    ),
    Category(
        "beauty",
        ("face cream", "shampoo", "lip balm", "body lotion"),
        ("aloe", "argan", "shea", "honey"),
        ("face", "hair", "hands", "skin"),
        (
            "cruelty free",
            "paraben free",
            "fragrance free",
            "sensitive skin",
            "dry skin",
            "anti aging",
            "sulfate free",
            "long lasting",
            "natural ingredients",
            "dermatologist tested",
            "hyaluronic acid",
            "alcohol free",
        ),
        {
            "scent": ("unscented", "lavender", "citrus", "coconut", "rose water", "peppermint"),
            "size": ("1 ounce", "2 ounce", "4 ounce", "8 ounce", "16 ounce"),
        },
        (5.0, 75.0),
    ),
    Category(
        "rugs and bedding",
        ("area rug", "throw blanket", "duvet cover", "pillow case"),
        ("jute", "velvet", "microfiber", "cotton"),
        ("bedroom", "nursery", "living room", "guest room"),
        (
            "stain resistant",
            "super soft",
            "fade resistant",
            "hypoallergenic fill",
            "non slip backing",
            "hidden zipper",
            "reversible design",
            "easy care",
            "hand woven",
            "low pile",
            "oeko certified",
            "extra thick",
        ),
        {
            "color": ("ivory", "terracotta", "slate", "blush pink", "emerald", "indigo", "sand"),
            "size": ("twin", "full", "queen", "king", "runner"),
        },
        (16.0, 190.0),
    ),
    Category(
        "bags",
        ("backpack", "tote bag", "duffel bag", "laptop sleeve"),
        ("canvas", "nylon", "leather", "felt"),
        ("school", "travel", "work", "gym"),
        (
            "water repellent",
            "padded straps",
            "shoe compartment",
            "luggage strap",
            "anti theft pocket",
            "carry on size",
            "light weight",
            "large capacity",
            "magnetic closure",
            "tear resistant",
            "bottle holder",
            "key clip",
        ),
        {
            "color": ("black", "khaki", "plum", "denim blue", "rust", "stone", "forest green"),
            "capacity": ("10 liter", "20 liter", "30 liter", "45 liter"),
        },
        (14.0, 130.0),
    ),
)

WITHOUT_ARTICLE: Final = frozenset(
    {
        "body lotion",
        "boots",
        "dark chocolate",
        "earbuds",
        "face cream",
        "granola",
        "green tea",
        "ground coffee",
        "headphones",
        "lip balm",
        "sandals",
        "shampoo",
        "slippers",
        "sneakers",
        "string lights",
        "trail mix",
    }
)
"""Kinds that come in pairs, or by weight."""

PRAISE: Final = (
    "Just what I had hoped for.",
    "Arrived early and well packed.",
    "My sister wants one as well.",
    "Good value for what it costs.",
    "It has held up for months now.",
    "Exactly as in the pictures.",
)
COMPLAINTS: Final = (
    "Smaller than I thought.",
    "The color is a little off.",
    "It took two weeks to get here.",
    "Fine, but nothing special.",
)
