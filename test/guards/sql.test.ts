import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";

const sources = readdirSync("src", { recursive: true, encoding: "utf8" })
  .filter((name) => /\.(ts|mts)$/.test(name))
  .map((name) => `src/${name.replaceAll("\\", "/")}`);
const inStore = sources.filter((file) => file.startsWith("src/store/"));
const outside = sources.filter((file) => !file.startsWith("src/store/"));
const read = (file: string) => readFileSync(file, "utf8");

// Named by table, because agents have databases of their own, and src/provision creates those.
const tables = inStore.flatMap((file) => [...read(file).matchAll(/= table\("(\w+)"/g)].map(([, name]) => name));
const names = `"?(?:${tables.join("|")})"?\\b`;
const statement = new RegExp(
  `\\b(?:insert into|delete from|lock table|truncate|alter table) ${names}|\\bupdate ${names}[^"'\`]{0,20} set\\b|\\bselect\\b[^;]{0,400}\\bfrom ${names}`,
);

test("recognizes a statement on one of the store's tables", () => {
  assert.ok(tables.length > 40, `${tables.length} tables`);
  for (const text of [
    "select id\n  from deployments d",
    "update revisions r set",
    "insert into events (",
    "lock table leases",
  ]) {
    assert.match(text, statement);
  }
  assert.doesNotMatch("select 1 from pg_roles", statement);
});

test("only the store has SQL templates and statements on its tables", () => {
  const offences = outside.filter(
    (file) => /store\/engine\/(sql|table)\.ts"/.test(read(file)) || statement.test(read(file)),
  );
  assert.deepEqual(offences, []);
});

test("an engine has its SQL in its own store files only", () => {
  const files = readdirSync("engines", { recursive: true, encoding: "utf8" })
    .map((name) => `engines/${name.replaceAll("\\", "/")}`)
    .filter((file) => /^engines\/[^/]+\/src\/.*\.ts$/.test(file));
  const own = /\b(?:insert into|delete from|update|from|join) @\w|\b(?:create table|pg_notify|listen ")/;
  const [stores, others] = [true, false].map((inside) =>
    files.filter((file) => file.includes("/src/store/") === inside),
  );
  assert.ok((stores ?? []).some((file) => own.test(read(file))));
  assert.deepEqual(
    (others ?? []).filter((file) => own.test(read(file))),
    [],
  );
});
