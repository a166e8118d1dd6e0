"""The public test kit: builders that set a scene in a few lines, and the platform's promises as functions.

Nothing here knows pytest. Time is a `ManualClock`, stores are in memory unless a test passes its own.
"""
