"""What runs leave, to look at: served to a browser on this machine, or as files that open offline.

`rows` says what a file holds and what of a row is shown, `design` finds and draws pictures, `indexing` keeps an index beside
a file, `library` opens files and says what belongs together. `page` puts the application together from `static/`, `server`
answers it, `export` writes it with everything inside. Nothing here changes rows.
"""
