-- Records that the file defines.

-- file_entries() -> list[FileEntry]: the records that the file defines
SELECT kind, name, path, line, digest FROM file_entries ORDER BY kind, name;

-- upsert_file_entry: store an applied record of the file
INSERT INTO file_entries (kind, name, path, line, digest) VALUES (:kind, :name, :path, :line, :digest)
ON CONFLICT (kind, name) DO UPDATE SET path = excluded.path, line = excluded.line, digest = excluded.digest;

-- delete_file_entry: delete a record that the file no longer defines
DELETE FROM file_entries WHERE kind = :kind AND name = :name;
