"""What runs leave, to look at: served to a browser on this machine, or as files that open offline.

`rows` says what a file holds and what of a row is shown, `design` finds and draws pictures, `indexing` keeps an index beside
a file, `library` opens files and says what belongs together. `export` puts the application together from `static/` and
writes it with everything inside, `server` answers it. Nothing here changes rows.
"""
