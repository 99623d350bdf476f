"""What runs leave, to look at: served to a browser on this machine, or as files that open offline.

`kinds` says what a file holds, `indexing` keeps an index beside it, `library` opens files and says what
belongs together. `rows` and `design` say what of a row is shown, `documents` what of metrics, reports and records. `page` puts the application together from
`static/`, `server` answers it, `export` writes it with everything inside. Nothing here changes rows.
"""
