-- What was answered to a request with an Idempotency-Key, sealed with a digest of the request, so that the same request
-- is answered in the same words again. No foreign keys: a look-up for each would cost every create, and what an answer
-- speaks of may be gone before the answer is.
drop table idempotency_keys;
create table idempotency_keys (
  scope_id uuid not null,
  key text not null,
  data_key_id uuid not null,
  sealed bytea not null,
  created_at timestamptz not null default now(),
  primary key (scope_id, key)
) with (toast_tuple_target = 8160);
-- Sealed bytes do not compress; those of usual length (2 KiB) stay in the row.
alter table idempotency_keys alter column sealed set storage external;
create index idempotency_keys_age on idempotency_keys using brin (created_at);
