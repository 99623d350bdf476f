"""Trajectories as one page, exported to a file or served on this machine.

`content` says what of a trajectory is shown, `page` puts the page together from `static/`, `export` writes it
with the rows inside, `server` hands the rows out on demand. `study` is another page, the report of a study,
drawn here out of `charts` and `markup`. Nothing here grades, changes or writes rows.
"""
