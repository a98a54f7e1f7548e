-- Drops the tables that the build did not have when it was new: those of classes.
DO $$
DECLARE
    t record;
BEGIN
    FOR t IN
        SELECT schemaname, tablename FROM pg_tables p
        WHERE schemaname IN ('chancery', 'build_1')
            AND NOT EXISTS (SELECT FROM ready.tables r WHERE r.schema = p.schemaname AND r.name = p.tablename)
    LOOP
        EXECUTE format('DROP TABLE %I.%I CASCADE', t.schemaname, t.tablename);
    END LOOP;
END $$;
