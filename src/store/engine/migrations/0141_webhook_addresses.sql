-- The path of an address may be a secret of its receiver: the whole address is sealed beside the signing keys, and what stands
-- here is its scheme and host. Rows that still have all of it are sealed by housekeeping.
alter table webhooks rename column url to origin;
