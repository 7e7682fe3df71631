-- writeAssignment
with turn as (
        select id from listeners where id = any($1::uuid[]) order by id for update
      ), held as (
        select deployment_id, generation from assignments
         where (select count(*) from turn) >= 0 -- lock listeners first, as every writer of assignments does
           and deployment_id = any($2::uuid[])
         order by deployment_id for update
      ), desired as (
        select w.* from jsonb_to_recordset($3::jsonb)
            as w ("deployment_id" uuid, "tenant_id" uuid, "listener_id" uuid, "op" text, "spec" jsonb, "seen" bigint)
          left join held h on h.deployment_id = w.deployment_id where w.seen = coalesce(h.generation, 0)
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
    )
      select deployment_id from desired;

-- compareInventory
with held as (
      select * from jsonb_to_recordset($1::jsonb) as h ("deployment_id" uuid, "generation" bigint)
    ), own as (select deployment_id, generation, op from assignments
       where listener_id = $2 and ($3::uuid is null or deployment_id > $4::uuid)
         and ($5::uuid is null or deployment_id <= $6::uuid))
    select coalesce((select jsonb_agg(h.deployment_id) from held h
                      where not exists (select from own o where o.deployment_id = h.deployment_id)), '[]') as unknown,
           exists (select from own o left join held h on h.deployment_id = o.deployment_id
                    where case when h.deployment_id is null then o.op = 'apply' else h.generation < o.generation end)
             as "isBehind",
           exists (select from own o join held h on h.deployment_id = o.deployment_id where h.generation > o.generation)
             as "isAhead";

-- addMetricSamples
with session as (
      select id as listener_id from listeners where id = $1 and epoch = $2
    ), sample as (
      select distinct on (s.deployment_id, date_trunc('minute', s.at))
             s.deployment_id, date_trunc('minute', s.at) as at, s.replicas, s.cpu_cores, s.memory_mib, s.restarts,
             s.requests, s.errors, s.latency_counts, s.runs_waiting, s.runs_running, s.runs_failed, s.runs_recovered,
             s.input_tokens, s.output_tokens, s.replica_usage, s.at as sampled_at
        from jsonb_to_recordset($3::jsonb)
          as s ("deployment_id" uuid, "at" timestamp with time zone, "replicas" integer, "cpu_cores" double precision, "memory_mib" double precision, "restarts" integer, "requests" bigint, "errors" bigint, "latency_counts" integer[], "runs_waiting" integer, "runs_running" integer, "runs_failed" integer, "runs_recovered" integer, "input_tokens" integer, "output_tokens" integer, "replica_usage" jsonb)
        join deployments d on d.id = s.deployment_id
        join session using (listener_id)
       where s.at < now() + interval '1 day'
       order by s.deployment_id, date_trunc('minute', s.at), s.at
    ), used as (
      update deployments d set used_at = s.at
        from (select deployment_id, max(at) as at from sample where requests > 0 group by deployment_id) s
       where d.id = s.deployment_id and coalesce(d.used_at, '-infinity') < s.at - interval '1 hour'
    ), added as (
      insert into metric_minutes as m
        (deployment_id, at, replicas, cpu_cores, memory_mib, restarts, requests, errors, latency_counts, runs_waiting, runs_running, runs_failed, runs_recovered, input_tokens, output_tokens, replica_usage, sampled_at)
      select deployment_id, at, replicas, cpu_cores, memory_mib, restarts, requests, errors, latency_counts, runs_waiting, runs_running, runs_failed, runs_recovered, input_tokens, output_tokens, replica_usage, sampled_at from sample
      on conflict (deployment_id, at) do update set
        replicas = greatest(m.replicas, excluded.replicas), cpu_cores = greatest(m.cpu_cores, excluded.cpu_cores),
        memory_mib = greatest(m.memory_mib, excluded.memory_mib), restarts = case when "m"."restarts" is null or "excluded"."restarts" is null then coalesce("m"."restarts", "excluded"."restarts")
             else least("m"."restarts"::bigint + "excluded"."restarts", $4) end,
        requests = case when "m"."requests" is null or "excluded"."requests" is null then coalesce("m"."requests", "excluded"."requests")
             else least("m"."requests"::bigint + "excluded"."requests", $5) end, errors = case when "m"."errors" is null or "excluded"."errors" is null then coalesce("m"."errors", "excluded"."errors")
             else least("m"."errors"::bigint + "excluded"."errors", $6) end,
        latency_counts = array(
          select least(a::bigint + b, $7)::integer from unnest(m.latency_counts, excluded.latency_counts) with ordinality as pair (a, b, place)
           order by place),
        runs_waiting = greatest(m.runs_waiting, excluded.runs_waiting),
        runs_running = greatest(m.runs_running, excluded.runs_running),
        runs_failed = case when "m"."runs_failed" is null or "excluded"."runs_failed" is null then coalesce("m"."runs_failed", "excluded"."runs_failed")
             else least("m"."runs_failed"::bigint + "excluded"."runs_failed", $8) end, runs_recovered = case when "m"."runs_recovered" is null or "excluded"."runs_recovered" is null then coalesce("m"."runs_recovered", "excluded"."runs_recovered")
             else least("m"."runs_recovered"::bigint + "excluded"."runs_recovered", $9) end,
        input_tokens = case when "m"."input_tokens" is null or "excluded"."input_tokens" is null then coalesce("m"."input_tokens", "excluded"."input_tokens")
             else least("m"."input_tokens"::bigint + "excluded"."input_tokens", $10) end, output_tokens = case when "m"."output_tokens" is null or "excluded"."output_tokens" is null then coalesce("m"."output_tokens", "excluded"."output_tokens")
             else least("m"."output_tokens"::bigint + "excluded"."output_tokens", $11) end,
        replica_usage = excluded.replica_usage,
        sampled_at = excluded.sampled_at
      where m.sampled_at is distinct from excluded.sampled_at
    )
    select exists (select from session) as "isNewest";
