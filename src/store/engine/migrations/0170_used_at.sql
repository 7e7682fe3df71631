-- When a deployment last answered a request, to the hour.
alter table deployments add column used_at timestamptz;
