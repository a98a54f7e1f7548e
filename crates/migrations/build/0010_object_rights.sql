-- A version of the rights on single objects: of owners, of members, and by permission sets.
INSERT INTO versions(name, n) VALUES ('object_rights', 1);
