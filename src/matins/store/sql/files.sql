-- Records that files define, and the files.

-- file_entries() -> list[FileEntry]: the records that files define
SELECT kind, name, file, path, line, digest FROM file_entries ORDER BY kind, name;

-- upsert_file_entry: store an applied record of the file
INSERT INTO file_entries (kind, name, file, path, line, digest) VALUES (:kind, :name, :file, :path, :line, :digest)
ON CONFLICT (kind, name) DO UPDATE SET file = excluded.file, path = excluded.path, line = excluded.line, digest = excluded.digest;

-- delete_file_entry: delete a record that the file no longer defines
DELETE FROM file_entries WHERE kind = :kind AND name = :name;

-- applied_files() -> list[AppliedFile]: the files that were applied
SELECT name, place, digest, at, by FROM files ORDER BY name;

-- applied_text(name: str) -> str | None: the text of a file as it was applied last
SELECT content FROM files WHERE name = :name;

-- set_applied_file(file: AppliedFile, content: str) -> None: a file was applied
INSERT INTO files (name, place, digest, content, at, by)
VALUES (:name, :place, :digest, :content, :at, :by)
ON CONFLICT (name) DO UPDATE SET place = excluded.place, digest = excluded.digest, content = excluded.content,
  at = excluded.at, by = excluded.by;

-- delete_applied_file(name: str) -> None: a file has another name now
DELETE FROM files WHERE name = :name;
