"""The families of hosts: one file per character."""
