"""The link graph in numbers: ranks, centrality, spam evidence, independence. Arrays in, arrays out.

Nodes are 0 … n−1 and arcs are two integer arrays `src`, `dst` of one length. No I/O, no clock; a random
generator is an argument.
"""
