-- additive
-- The end of a key that a command line has got by a login and not used yet. Its first use replaces expires_at by it.
alter table api_keys add column expires_at_once_used timestamptz;
