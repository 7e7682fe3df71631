-- listRevisions
select r.id, r.tenant_id, r.deployment_id, r.status, r.status_message, r.failure, r.status_since, r.deadline_at, r.source, r.source_revision_config, r.secret_set_id, r.artifact_id, r.artifact_key, r.redeploy_of, r.triggered_by, r.image_version, r.number, r.reason, r.made_by, r.commit_message, r.commit_author, r.created_at, r.updated_at, 
  (select a.manifest ->> 'rollout' from artifacts a where a.id = r.artifact_id) as rollout, (select a.manifest ->> 'engine' from artifacts a where a.id = r.artifact_id) as engine, (select a.manifest ->> 'engine_because' from artifacts a where a.id = r.artifact_id) as engine_because,
  (select a.manifest ->> 'digest' from artifacts a where a.id = r.artifact_id) as artifact_digest, (select a.manifest ->> 'builder' from artifacts a where a.id = r.artifact_id) as builder_version, 
  (select n.name from deployments n where n.id = r.deployment_id) as deployment_name,
  coalesce((select k.name from api_keys k where k.id = case when starts_with(r.made_by, 'key:') then split_part(r.made_by, ':', 2)::uuid end),
           (select m.email from members m where m.id = case when starts_with(r.made_by, 'member:') then split_part(r.made_by, ':', 2)::uuid end)) as made_by_name,
  (select o.number from revisions o where o.id = r.redeploy_of) as redeploy_of_number from revisions r
     where r.deployment_id = $1 and r.tenant_id = $2
       and ($3::text[] is null or r.status = any($4::text[]))
     order by r.seq desc limit $5 offset $6;

-- moveRevision
with wanted as (
      select * from jsonb_to_recordset($1::jsonb)
        as w (n integer, id uuid, "from" text, "to" text, because text, message text, failure jsonb, deadline_at timestamptz, by_pass boolean,
              sets_artifact boolean, artifact_id uuid, artifact_key text, image_version text, source_revision_config jsonb, proven boolean, health jsonb,
              listener_id uuid, op text, spec jsonb, actor text, action text, noted jsonb)
    ), moved as (
      update revisions r set status = w."to", status_message = w.message, failure = w.failure, status_since = now(), deadline_at = w.deadline_at,
             updated_at = now(), artifact_id = case when w.sets_artifact then w.artifact_id else r.artifact_id end,
             artifact_key = coalesce(w.artifact_key, r.artifact_key), image_version = coalesce(w.image_version, r.image_version),
             source_revision_config = coalesce(w.source_revision_config, r.source_revision_config)
        from wanted w
       where r.id = any($2::uuid[]) and r.id = w.id and r.status = w."from"
      returning w.n, r.id, r.deployment_id, r.tenant_id, w."from", w."to", w.because, w.message, w.failure, w.by_pass, r.image_version,
                w.proven, w.health, w.listener_id, w.op, w.spec, w.actor, w.action, w.noted, null as subject_name
    ), activated as (
      update deployments d set active_revision_id = m.id, image_version = m.image_version, updated_at = now(),
             health = coalesce(m.health ->> 'word', d.health),
             health_reason = case when m.health is null then d.health_reason else m.health ->> 'reason' end,
             health_message = case when m.health is null then d.health_message else m.health ->> 'message' end,
             health_failure = case when m.health is null then d.health_failure else nullif(m.health -> 'failure', 'null') end,
             health_since = case when coalesce(m.health ->> 'word', d.health) = d.health then d.health_since else now() end
        from moved m where d.id = m.deployment_id and m."to" = 'DEPLOYED'
      returning d.tenant_id, d.id as deployment_id, m.id, d.health as "to", d.health_reason, d.health_message,
                (select o.health from deployments o where o.id = d.id) as "from"
    ), event as (
      insert into events (tenant_id, deployment_id, revision_id, kind, data)
      select tenant_id, deployment_id, id, kind, data from (
        select tenant_id, deployment_id, id, 'revision.status' as kind, 1 as part,
               jsonb_build_object('from', "from", 'to', "to", 'because', because, 'message', message)
                 || case when failure is null then '{}' else jsonb_build_object('failure', failure -> 'code') end as data
          from moved
        union all
        select tenant_id, deployment_id, id, 'deployment.health', 2,
               jsonb_build_object('from', "from", 'to', "to", 'because', health_reason, 'message', health_message)
          from activated where "from" <> "to") news
       order by deployment_id, part
    ), audit as (
      insert into audit_log (organization_id, tenant_id, actor, action, deployment_id, subject_id, subject_name, data)
      select w.organization_id, s.tenant_id, s.actor, s.action, s.deployment_id, s.deployment_id,
             coalesce(s.subject_name, (select d.name from deployments d where d.id = s.deployment_id)), s.noted
        from "moved" s join workspaces w on w.id = s.tenant_id where s.action is not null
    ), desired as (
      select deployment_id, tenant_id, listener_id, op, spec from moved where spec is not null
      union all
      select a.deployment_id, a.tenant_id, a.listener_id, a.op, jsonb_set(a.spec, '{serving}', a.spec -> 'target')
        from moved m join assignments a on a.deployment_id = m.deployment_id where m.proven
    ), counted as (
      select listener_id, count(*) as count from "desired" group by listener_id order by listener_id
    ), listener as (
      update listeners l set rv = l.rv + c.count from counted c where l.id = c.listener_id
      returning l.id, l.rv - c.count as rv_before
    ), written as (
      insert into assignments (deployment_id, tenant_id, listener_id, rv, generation, op, spec)
      select w.deployment_id, w.tenant_id, w.listener_id,
             l.rv_before + row_number() over (partition by w.listener_id order by w.deployment_id), 1, w.op, w.spec
        from "desired" w join listener l on l.id = w.listener_id
      on conflict (deployment_id) do update
         set listener_id = excluded.listener_id, rv = excluded.rv, generation = assignments.generation + 1,
             op = excluded.op, spec = excluded.spec, updated_at = now()
    ), due as (
      insert into reconcile_queue (deployment_id, run_at)
      select distinct deployment_id, now() from "moved" where not "by_pass" order by deployment_id
      on conflict (deployment_id) do update
         set run_at = least(reconcile_queue.run_at, excluded.run_at), generation = reconcile_queue.generation + 1
    )
    select n from moved;
