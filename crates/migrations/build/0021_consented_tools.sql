-- The tools that the consent to a grant showed, a JSON array of names. It is null in sessions of people.
ALTER TABLE sessions ADD COLUMN tools TEXT;
UPDATE sessions SET tools = (SELECT c.allowed_tools FROM mcp_connectors c WHERE c.id = sessions.connector)
    WHERE connector IS NOT NULL;
