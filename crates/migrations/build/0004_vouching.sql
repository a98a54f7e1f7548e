-- What a single sign-on configuration vouches for when an address binds an identity to an account (document 4, section 7).
-- vouches_for: 'everything', or permissions as a role stores them; null: nothing. vouched_by: whose permissions these
-- are. vouched_state: the fields of which that was said (single_sign_on/vouching.rs); where they are others by now, as
-- after a change by a process of the version before, nobody vouches.
ALTER TABLE single_sign_on ADD COLUMN vouches_for TEXT;
ALTER TABLE single_sign_on ADD COLUMN vouched_by BIGINT REFERENCES users(id);
ALTER TABLE single_sign_on ADD COLUMN vouched_state TEXT;
