-- additive
-- Why a revision failed and why a deployment is not well, as a code of the program. null: no failure, or a version of the program
-- that wrote only the message.
alter table revisions add column failure jsonb;
alter table deployments add column health_failure jsonb;
