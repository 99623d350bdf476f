"""Simulated humans and oracles: each implements `sweet_rl.contracts.User`, one object for many episodes.

A dialogue and what the human knows come in, a reply goes out. Begin with `model.py`, a human that a server's model plays;
`server.py` offers one as a server. `USERS` are those with a name of their own, who answer in any world: they come from
other packages. The humans and oracles of our worlds belong to their worlds.
"""

from sweet_rl.plugins import Registry

USERS = Registry("sweet_rl.users", "human", parts=("name", "close", "reply"))
"""An object, or a class or factory that takes nothing or the world."""
