"""From a world to an agent that is better in it: a policy to begin with, the methods, and what is checked on the way.

`policy` makes a model that plays any world, by imitation. `chain` takes it through a method (SWEET-RL, DPO, rejection
fine-tuning, ArCHer, filtered behaviour cloning) in a given time, as stages of the library. `gates` look, before an hour is spent,
whether there is anything to learn, whether the critic reads, whether pairs are right and whether the policy collapses;
`continuations` plays on from any turn of an episode. Begin with `chain.learn`.
"""
