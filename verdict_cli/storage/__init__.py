"""Files that outlive a run: datasets, tables, the journal of calls, folders of object stores, and which paths may be read."""
