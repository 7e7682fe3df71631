-- additive
-- An agent's id is a DNS label or a UUID. A previous version of the program goes on writing UUIDs.
alter table deployments alter column agent_id type text;
