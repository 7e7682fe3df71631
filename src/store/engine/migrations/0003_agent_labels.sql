-- additive
-- An agent's id is a UUID or a DNS label. Labels have a column of their own: a new type of agent_id would break the prepared
-- statements of servers of the previous version, which also go on writing UUIDs.
alter table deployments add column agent_name text;
create unique index deployments_agent_name on deployments (tenant_id, agent_name, agent_environment)
  where agent_name is not null;
-- Statements of the previous version, with agent_id is not null, use the wider index too.
drop index deployments_environment;
create index deployments_environment on deployments (tenant_id, agent_environment, created_at desc, seq desc)
  where agent_environment is not null;
