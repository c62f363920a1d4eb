-- file_entries_named(kind: str, names: Iterable[str]) -> list[FileEntry]: the records of files of a kind, by name
SELECT f.kind, f.name, f.file, f.path, f.line, f.digest FROM json_each(:names) j JOIN file_entries f ON f.kind = :kind AND f.name = j.value;
