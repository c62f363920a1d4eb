-- Who wrote a revision: nobody but the owner approves their own words.

ALTER TABLE revisions ADD COLUMN author TEXT;
ALTER TABLE revisions ADD COLUMN author_role TEXT;
