-- Whether the tables, indexes and columns of the build are those of when it was new.
SELECT NOT EXISTS (
    SELECT FROM ready.shapes s FULL JOIN (
        SELECT c.oid, a.attnum, a.attname, a.atttypid
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_attribute a ON a.attrelid = c.oid
        WHERE n.nspname IN ('chancery', 'build_1') AND a.attnum > 0
    ) b USING (oid, attnum, attname, atttypid)
    WHERE s IS NULL OR b IS NULL
)
