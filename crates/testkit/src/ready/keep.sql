-- Keeps the rows of a new build, what its tables are, and the next values of its sequences, in the schema "ready".
CREATE SCHEMA ready;
CREATE TABLE ready.tables (schema text, name text, has_rows boolean);
CREATE TABLE ready.shapes AS
    SELECT c.oid, a.attnum, a.attname, a.atttypid
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_attribute a ON a.attrelid = c.oid
    WHERE n.nspname IN ('chancery', 'build_1') AND a.attnum > 0;
CREATE TABLE ready.sequences AS
    SELECT format('%I.%I', schemaname, sequencename) AS name, start_value, last_value
    FROM pg_sequences WHERE schemaname IN ('chancery', 'build_1');
DO $$
DECLARE
    t record;
    n boolean;
BEGIN
    FOR t IN SELECT schemaname, tablename FROM pg_tables WHERE schemaname IN ('chancery', 'build_1') LOOP
        EXECUTE format('SELECT EXISTS (SELECT FROM %I.%I)', t.schemaname, t.tablename) INTO n;
        INSERT INTO ready.tables VALUES (t.schemaname, t.tablename, n);
        IF n THEN
            EXECUTE format('CREATE TABLE ready.%I AS TABLE %I.%I', t.schemaname || '.' || t.tablename, t.schemaname, t.tablename);
        END IF;
    END LOOP;
END $$;
