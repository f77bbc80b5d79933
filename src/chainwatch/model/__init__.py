"""The words that every room shares, as frozen types.

Import them from the module that holds them (``chainwatch.model.job`` …): this package is empty on purpose, since
``chainwatch latest`` runs at the head of every batch script and must not pay for words that it does not use.
"""
