"""Bytes on the wire: two sites in network namespaces, every packet between them counted."""
