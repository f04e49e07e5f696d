"""Hocket: collective communication for processes that train models together.

`import hocket.torch` registers the back end "hocket" of torch.distributed (where torch loads back ends by itself, that has
happened already)."""
