"""The inside of the sandbox: a warm worker, its isolation, and the answers themselves.

A worker gets this package as code, under the bare name `guest` (`sandbox.worker`), without the rest of the
library, of which nothing is then in the memory of a process in which an answer runs. Hence: standard library
only, relative imports only, and few of them: every page that a worker has costs time in every fork.
"""
