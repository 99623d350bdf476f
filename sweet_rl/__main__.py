"""`python -m sweet_rl STAGE` is the same as `sweet-rl STAGE`."""

from sweet_rl.cli.main import main

main()
