-- additive
-- Labels by which deployments choose a listener.
alter table listeners add column labels jsonb not null default '{}';
