"""A web that means harm: one host per named misbehaviour, one file per family, and one site that is honest.

Unlike the synthetic web it has no truth to be asked for but its table (`table.ALL`): what each host does, and how
a fetch of it has to end.
"""
