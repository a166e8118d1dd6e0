"""Upkeep: what keeps the lake small and quick to read without any reader or writer noticing.

Per table, in this order:

1. retain (`retain.py`): rows past their age go, whole date partitions at a time; what is current stays;
2. compact (`compact.py`): many small files of a closed day become few large ones, with the same rows;
3. vacuum (`vacuum.py`): files that no version within history names are deleted, staged ones too; the log is cut
   off at the last checkpoint before history.

Before that, purges that stand are carried out (`purge.py`): what was crawled of a host goes for good.

1 and 2 add a version that names other files; the old files stay until 3 finds them outside history, so a reader
at an older version goes on as before. Nothing here decides who may run it: `fleet/upkeep.py` sees to it that
upkeep never runs beside a commit. Killed anywhere it leaves a lake that can be read, and files that nobody names
for a later run to sweep.
"""
