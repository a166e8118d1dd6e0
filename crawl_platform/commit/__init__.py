"""Facts → lake, exactly once. The numbered steps, and who takes them:

    1 Stage     cell       rows as Parquet under `<table>/_staged/`, synced          `staging`
    2 Commit    cell       one synced batch: states, manifest, outbox: *the commit point*  `outbox`
    3 Publish   cell       manifest and messages to JetStream                        `fleet.publisher`
      Lake      committer  contiguous manifests → Delta, once per table; one `commits` row  `committer`
    4 Forget    cell       when every table named shows the transaction              `outbox`

Each step has a fault point (`faults`), and a test that kills there.
"""
