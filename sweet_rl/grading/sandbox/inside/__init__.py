"""What runs on the other side: the workers, the walls around them, and the answers themselves.

A worker imports this package under the bare name `inside`, without the rest of the library, so that nothing of
the library is in the memory of a process in which an answer runs. Hence: the standard library only, relative
imports only, and few of them (every page a worker has costs time in every fork).
"""
