"""Topics of made repositories. No word is part of another, and none is dropped by the published filters.

(`ci`, `out`, `test` and `git` anywhere in a path drop it.)

Published behaviour: docs/published/reflect_rl.md#data-of-autoexplore.
"""

from __future__ import annotations

from typing import Final

ENTITIES: Final = (
    *("orders", "invoices", "parcels", "bookings", "coupons", "reviews", "payments", "refunds", "tickets"),
    *("members", "lessons", "recordings", "sensors", "harvests", "lanterns", "bridges", "ferries", "kettles"),
    *("maps", "stamps", "gardens", "violins", "telescopes", "bakeries", "museums", "libraries", "trams"),
)
PEOPLE: Final = (
    *("Amara", "Bruno", "Chiara", "Dmitri", "Elif", "Farid", "Greta", "Hiroshi", "Ingrid", "Jomo", "Katya"),
    *("Leandro", "Mireille", "Nadia", "Oskar", "Priya", "Quentin", "Rosalind", "Soren", "Tamsin", "Umberto"),
    *("Valeria", "Wanda", "Xavier", "Yusuf", "Zelda"),
)
PLACES: Final = (
    *("Bergen", "Cordoba", "Dakar", "Esfahan", "Fukuoka", "Galway", "Hobart", "Izmir", "Jaipur", "Kumasi"),
    *("Leipzig", "Maputo", "Nantes", "Oaxaca", "Porto", "Quito", "Riga", "Salta", "Tartu", "Uppsala"),
)
THINGS: Final = (
    *("apples", "blankets", "candles", "drums", "envelopes", "flutes", "gloves", "hammers", "inkwells"),
    *("jars", "kites", "ladders", "mirrors", "needles", "onions", "pencils", "quilts", "ropes", "saddles"),
    *("teapots", "umbrellas", "vases", "whistles", "yarns", "zithers", "baskets", "carpets", "spoons"),
)
COLOURS: Final = (
    *("amber", "crimson", "indigo", "ivory", "jade", "maroon", "ochre", "scarlet", "teal", "violet"),
)
WEEKDAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday")
PROJECTS: Final = (
    *("Driftwood", "Foxglove", "Heron", "Juniper", "Larkspur", "Marigold", "Nightjar", "Osprey", "Pinecone"),
    *("Quartz", "Rosemary", "Sandpiper", "Thistle", "Willow"),
)
LICENCES: Final = ("Apache-2.0", "BSD-3-Clause", "ISC", "MIT", "MPL-2.0", "Zlib")
