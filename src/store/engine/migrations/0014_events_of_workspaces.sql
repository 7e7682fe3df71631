-- Some events are about the workspace, not about a deployment.
alter table events alter column deployment_id drop not null;
