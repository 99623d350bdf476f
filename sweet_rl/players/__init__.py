"""Who plays where: `settings` says it in plain values, which are flags; `cast` makes agent, human and world of them."""
