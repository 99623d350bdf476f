"""What runs on the other side: a warm worker, the walls around it, and the answers themselves.

A worker imports this package under the bare name `guest`, without the rest of the library, so that nothing of
the library is in the memory of a process in which an answer runs. Hence: standard library only, relative
imports only, and few of them, since every page that a worker has costs time in every fork.
"""
