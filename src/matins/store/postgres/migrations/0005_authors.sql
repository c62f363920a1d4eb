-- Who wrote a revision: nobody but the owner approves their own words.

ALTER TABLE revisions ADD COLUMN author text;
ALTER TABLE revisions ADD COLUMN author_role text;
