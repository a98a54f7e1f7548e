-- Empties the tables that have rows, and gives them those of when the build was new. Foreign keys are not checked meanwhile.
SET session_replication_role = replica;
DO $$
DECLARE
    t record;
    n boolean;
BEGIN
    FOR t IN SELECT * FROM ready.tables LOOP
        EXECUTE format('SELECT EXISTS (SELECT FROM %I.%I)', t.schema, t.name) INTO n;
        IF n THEN
            EXECUTE format('DELETE FROM %I.%I', t.schema, t.name);
        END IF;
        IF t.has_rows THEN
            EXECUTE format('INSERT INTO %I.%I SELECT * FROM ready.%I', t.schema, t.name, t.schema || '.' || t.name);
        END IF;
    END LOOP;
END $$;
SELECT setval(name::regclass, COALESCE(last_value, start_value), last_value IS NOT NULL) FROM ready.sequences;
