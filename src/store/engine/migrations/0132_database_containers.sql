-- container: servers of the deployment's own, in containers beside its agents.
alter table deployment_databases drop constraint deployment_databases_postgres_check;
alter table deployment_databases drop constraint deployment_databases_redis_check;
alter table deployment_databases add constraint deployment_databases_postgres_check
  check (postgres in ('none', 'shared', 'container', 'custom'));
alter table deployment_databases add constraint deployment_databases_redis_check
  check (redis in ('none', 'shared', 'container', 'custom'));
