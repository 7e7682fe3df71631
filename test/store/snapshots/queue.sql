-- enqueue
insert into reconcile_queue (deployment_id, run_at) values ($1, coalesce($2::timestamptz, now()))
      on conflict (deployment_id) do update
         set run_at = least(reconcile_queue.run_at, excluded.run_at), generation = reconcile_queue.generation + 1;

-- claim
with abandoned as (
      select deployment_id, lease_until as since from reconcile_queue where lease_owner is not null and lease_until < now() and abs(extract(epoch from now() - $1::timestamptz)) < $2::float8
       order by lease_until limit $3 for update skip locked
    ), due as (
      select deployment_id, run_at as since from reconcile_queue where lease_owner is null and run_at <= now() and abs(extract(epoch from now() - $4::timestamptz)) < $5::float8
       order by run_at limit $6 for update skip locked
    ), chosen as (
      select deployment_id from (select * from abandoned union all select * from due) candidate order by since limit $7
    )
    update reconcile_queue q
       set lease_owner = $8 || '/' || (generation + 1), generation = generation + 1, run_at = null,
           lease_until = now() + $9 * interval '1 millisecond',
           attempts = case when lease_owner is null then attempts else attempts + 1 end
      from chosen c where q.deployment_id = c.deployment_id
    returning q.deployment_id as "deploymentId", q.generation, q.attempts;

-- settlePass
with ended as (
        select * from jsonb_to_recordset($1::jsonb)
          as e (deployment_id uuid, holder text, retry_at timestamptz, outcome jsonb)
      )
      update reconcile_queue q
         set lease_owner = null, lease_until = null, attempts = 0, run_at = least(q.run_at, e.retry_at),
             outcomes = jsonb_path_query_array(
             jsonb_build_array(e.outcome || jsonb_build_object('at', now())) || outcomes,
             '$[0 to 9]')
        from ended e
       where q.deployment_id = any($2::uuid[])
         and q.deployment_id = e.deployment_id and q.lease_owner = e.holder
      returning q.deployment_id, e.holder;

-- failPass
update reconcile_queue
       set lease_owner = null, lease_until = null, attempts = attempts + 1,
           run_at = least(
             now() + least($1::float8, $2::float8 * 2 ^ least(attempts, 30)) * (0.5 + random() / 2)
                   * interval '1 millisecond',
             case when run_at is not null then now() + $3::float8 * interval '1 millisecond' end),
           outcomes = jsonb_path_query_array(
             jsonb_build_array($4::jsonb || jsonb_build_object('at', now())) || outcomes,
             '$[0 to 9]')
     where deployment_id = $5 and lease_owner = $6 returning 1;

-- nextRunAt
select least((select min(run_at) from reconcile_queue where lease_owner is null and run_at is not null),
                 (select min(lease_until) from reconcile_queue where lease_owner is not null)) as at;
