-- file_entries_named(kind: str, names: Iterable[str]) -> list[FileEntry]: the records of files of a kind, by name
SELECT kind, name, file, path, line, digest FROM file_entries WHERE kind = %(kind)s AND name = ANY(%(names)b);
