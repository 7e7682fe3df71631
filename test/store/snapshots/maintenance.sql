-- trimAuditLog
delete from audit_log where id = any(array(
        select id from (select id, created_at from audit_log order by id limit $1) oldest
         where created_at < $2));

-- trimLogEntries
delete from log_entries where ctid = any(array(
        select ctid from log_entries where logged_at < $1 and kind = 'deploy' limit $2));

-- trimLogEntries
select d.id, (select id from log_entries where deployment_id = d.id and kind = 'deploy'
                     order by id desc offset $1 limit 1) as last_doomed
        from (select id from deployments where id > $2 order by id limit $3) d order by d.id;

-- moveOldLines
select deployment_id, max(id) as last_id from log_entries where logged_at < $1 and kind = 'deploy'
     group by deployment_id;

-- moveOldLines
select d.id, (select id from log_entries where deployment_id = d.id and kind = 'deploy'
                     order by id desc offset $1 limit 1) as last_doomed
        from (select id from deployments where id > $2 order by id limit $3) d order by d.id;

-- dropLogEntries
with gone as (
          delete from log_entries where id = any(array(
            select id from log_entries where deployment_id = $1 and kind = $2 and id > $3
             order by id limit $4)) returning id
        ) select count(*) as count, max(id) as last from gone;

-- dropLogEntries
with gone as (
          delete from log_entries where id = any(array(
            select id from log_entries where deployment_id = $1 and kind = $2 and id > $3
             order by id limit $4)) returning id
        ) select count(*) as count, max(id) as last from gone;

-- dropSupersededArtifacts
with ranked as (
      select r.id, r.artifact_id, r.status, r.id = d.active_revision_id as is_active,
             row_number() over (partition by r.deployment_id order by r.seq desc) as age
        from revisions r join deployments d on d.id = r.deployment_id where r.artifact_id is not null
    ), kept as (
      select distinct artifact_id from ranked
       where age <= $1 or is_active
          or status <> all($2::text[])
    ), doomed as (
      select a.id from artifacts a
       where a.last_used_at < now() - interval '1 hour' and not exists (select 1 from kept k where k.artifact_id = a.id)
       limit $3
    ), freed as (
      update revisions set artifact_id = null where artifact_id in (select id from doomed)
    ), unneeded as (
      insert into image_removals (listener_id, repository, reference)
      select l.id, split_part(a.manifest ->> 'uri', '@', 1), a.manifest ->> 'digest'
        from doomed d join artifacts a on a.id = d.id join listeners l on l.id = a.listener_id
      on conflict (listener_id, repository, reference) do nothing
    )
    delete from artifacts where id in (select id from doomed);
