"""From sources to samples: local models with shared prefixes, and servers.

Nothing here imports torch, transformers or httpx before a model or a server is used.
"""
