"""One module per command of `metaoperator`, each with its `command`; `cli` finds them by their names.

`render` and `validate` work without a cluster, and import nothing that speaks to one.
"""
